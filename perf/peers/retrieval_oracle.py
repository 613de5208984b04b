"""Writes crates/satiety/tests/fixtures/retrieval: random judgments and a random run (ties, scores that differ only
beyond 32 bits, negative grades, a query without relevant documents, judged queries missing from the run, a query that
is not judged), and the value of every measure for every query at relevance levels 1 and 2.

    pip install pytrec_eval-terrier==0.5.11 numpy
    python perf/peers/retrieval_oracle.py crates/satiety/tests/fixtures/retrieval

trec_eval computes the measures that it has; the loops below compute ndcg with exponential gain, rbp and judged.
"""
import math
import random
import sys
from pathlib import Path

import numpy
import pytrec_eval

TREC = {
    "map": "map", "recip_rank": "mrr", "ndcg": "ndcg_linear", "bpref": "bpref", "ndcg_cut_5": "ndcg_linear@5",
    "ndcg_cut_10": "ndcg_linear@10", "P_5": "p@5", "P_10": "p@10", "recall_5": "recall@5", "recall_100": "recall@100",
    "success_5": "success@5", "map_cut_10": "map@10", "set_P": "p", "set_recall": "recall",
}
ASKED = {"map", "recip_rank", "ndcg", "bpref", "ndcg_cut.5,10", "P.5,10", "recall.5,100", "success.5", "map_cut.10",
         "set_P", "set_recall"}


def make():
    random.seed(20261115)
    qrels, run, qrels_lines, run_lines = {}, {}, [], []
    pool = [f"d{i}" for i in range(1, 81)]
    for number in range(1, 31):
        query = f"q{number}"
        qrels[query] = {}
        for document in random.sample(pool, random.randint(3, 25)):
            grade = random.choice([0, 0, 0, 1, 1, 2, 3]) if number != 7 else 0
            if number % 6 == 0 and random.random() < 0.2:
                grade = random.choice([-1, -2])
            qrels[query][document] = grade
            qrels_lines.append(f"{query} 0 {document} {grade}")
        if number in (11, 19):
            continue
        run[query] = {}
        for index, document in enumerate(random.sample(pool, random.randint(5, 60))):
            score = random.choice([f"{random.randint(0, 8) / 4}", f"{1 + random.randint(0, 3) * 1e-8:.9f}",
                                   f"{random.random() * 3:.6f}"])
            run[query][document] = float(score)
            run_lines.append(f"{query} Q0 {document} {index + 1} {score} fixture")
    run["unjudged"] = {"d1": 1.0}
    run_lines.append("unjudged Q0 d1 1 1.0 fixture")
    return qrels, run, qrels_lines, run_lines


def ours(judged, results, level):
    order = sorted(results, key=lambda d: (numpy.float32(results[d]), d), reverse=True)
    gain = lambda grade: 2 ** max(grade, 0) - 1
    dcg = lambda grades: sum(gain(g) / math.log2(i + 2) for i, g in enumerate(grades))
    out = {}
    for cutoff in (5, 10, 20):
        best = dcg(sorted(judged.values(), reverse=True)[:cutoff])
        found = dcg([judged.get(d, 0) for d in order[:cutoff]])
        out[f"ndcg@{cutoff}"] = found / best if best else 0.0
        top = order[:cutoff]
        out[f"judged@{cutoff}"] = sum(d in judged for d in top) / len(top)
        hits = [i for i, d in enumerate(top) if judged.get(d, 0) >= level]
        out[f"mrr@{cutoff}"] = 1 / (hits[0] + 1) if hits else 0.0
    out["rbp(0.8)"] = sum(0.2 * 0.8 ** i for i, d in enumerate(order) if judged.get(d, 0) >= level)
    return out


def main(folder):
    qrels, run, qrels_lines, run_lines = make()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "qrels.txt").write_text("\n".join(qrels_lines) + "\n")
    (folder / "run.txt").write_text("\n".join(run_lines) + "\n")
    for level in (1, 2):
        found = pytrec_eval.RelevanceEvaluator(qrels, ASKED, relevance_level=level).evaluate(run)
        lines = []
        for query in sorted(found):
            values = {TREC[name]: value for name, value in found[query].items() if name in TREC}
            values.update(ours(qrels[query], run[query], level))
            lines += [f"{query}\t{name}\t{value!r}" for name, value in sorted(values.items())]
        (folder / f"level{level}.tsv").write_text("\n".join(lines) + "\n")


main(Path(sys.argv[1]))
