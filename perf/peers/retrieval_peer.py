"""Runs one peer, from files on disk to means: `python retrieval_peer.py PEER QRELS RUN` prints JSON with CPU seconds (of the whole
process), peak memory and the means."""
import json
import resource
import sys

peer, qrels_path, run_path = sys.argv[1:4]


def read(path, key, value, kind):
    table = {}
    with open(path) as lines:
        for line in lines:
            fields = line.split()
            table.setdefault(fields[0], {})[fields[key]] = kind(fields[value])
    return table


if peer == "pytrec_eval":
    import pytrec_eval
    qrels, run = read(qrels_path, 2, 3, int), read(run_path, 2, 4, float)
    found = pytrec_eval.RelevanceEvaluator(
        qrels, {"ndcg_cut.5,10,20", "recip_rank", "recall.5,10", "map"}).evaluate(run)
    names = {"ndcg_cut_5": "ndcg_linear@5", "ndcg_cut_10": "ndcg_linear@10", "ndcg_cut_20": "ndcg_linear@20",
             "recall_5": "recall@5", "recall_10": "recall@10", "map": "map"}
    means = {ours: sum(row[theirs] for row in found.values()) / len(found) for theirs, ours in names.items()}
    # The rank of the first relevant document gives the cut reciprocal ranks.
    for cutoff in (5, 10):
        values = [row["recip_rank"] if row["recip_rank"] * cutoff > 1 - 1e-9 else 0.0 for row in found.values()]
        means[f"mrr@{cutoff}"] = sum(values) / len(values)
elif peer == "ir_measures":
    import ir_measures
    from ir_measures import AP, RR, R, nDCG
    names = {nDCG @ 5: "ndcg_linear@5", nDCG @ 10: "ndcg_linear@10", nDCG @ 20: "ndcg_linear@20", RR @ 5: "mrr@5",
             RR @ 10: "mrr@10", R @ 5: "recall@5", R @ 10: "recall@10", AP: "map"}
    found = ir_measures.calc_aggregate(list(names), ir_measures.read_trec_qrels(qrels_path),
                                       ir_measures.read_trec_run(run_path))
    means = {ours: found[theirs] for theirs, ours in names.items()}
elif peer == "ranx":
    from ranx import Qrels, Run, evaluate
    names = {"ndcg@5": "ndcg_linear@5", "ndcg@10": "ndcg_linear@10", "ndcg@20": "ndcg_linear@20", "mrr@5": "mrr@5",
             "mrr@10": "mrr@10", "recall@5": "recall@5", "recall@10": "recall@10", "map": "map"}
    found = evaluate(Qrels.from_file(qrels_path, kind="trec"), Run.from_file(run_path, kind="trec"), list(names))
    means = {ours: float(found[theirs]) for theirs, ours in names.items()}
else:
    sys.exit(f"unknown peer {peer}")

usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"cpu_seconds": usage.ru_utime + usage.ru_stime, "megabytes": usage.ru_maxrss / 1000, "means": means}))
