"""Values of every query by trec_eval, through pytrec_eval: `python retrieval_values.py QRELS RUN LEVEL` prints JSON,
values by query and measure under our names. The test `retrieval_peer` of the command compares them with ours."""
import json
import sys

import pytrec_eval

NAMES = {
    "map": "map", "recip_rank": "mrr", "ndcg": "ndcg_linear", "bpref": "bpref", "ndcg_cut_5": "ndcg_linear@5",
    "ndcg_cut_10": "ndcg_linear@10", "P_5": "p@5", "recall_5": "recall@5", "recall_100": "recall@100",
    "success_5": "success@5", "map_cut_10": "map@10",
}
ASKED = {"map", "recip_rank", "ndcg", "bpref", "ndcg_cut.5,10", "P.5", "recall.5,100", "success.5", "map_cut.10"}


def read(path, value, kind):
    table = {}
    with open(path) as lines:
        for line in lines:
            fields = line.split()
            table.setdefault(fields[0], {})[fields[2]] = kind(fields[value])
    return table


qrels, run = read(sys.argv[1], 3, int), read(sys.argv[2], 4, float)
found = pytrec_eval.RelevanceEvaluator(qrels, ASKED, relevance_level=int(sys.argv[3])).evaluate(run)
print(json.dumps({query: {ours: row[theirs] for theirs, ours in NAMES.items()} for query, row in found.items()}))
