"""Evaluation of 10,000 queries with 100 results each, from Python objects, against ranx and pytrec_eval."""

from __future__ import annotations

import argparse
import importlib
import random
from typing import Any

import numpy as np
from _measure import cpu_seconds, report
from satiety import retrieval

MEASURES = ["ndcg@10", "mrr@10", "recall@100", "map@100"]


def data(queries: int, results: int) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    draw = random.Random(1)
    qrels, run = {}, {}
    for query in range(queries):
        documents = [f"d{draw.randrange(1_000_000)}" for _ in range(results)]
        run[f"q{query}"] = {document: draw.random() for document in documents}
        judged = draw.sample(documents, 5) + [f"d{draw.randrange(1_000_000)}" for _ in range(5)]
        qrels[f"q{query}"] = {document: draw.randrange(4) for document in judged}
        qrels[f"q{query}"][judged[0]] = 3
    return qrels, run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--results", type=int, default=100)
    arguments = parser.parse_args()
    qrels, run = data(arguments.queries, arguments.results)
    ours = retrieval.evaluate(qrels, run, MEASURES)
    rows = [("satiety.retrieval.evaluate", cpu_seconds(lambda: retrieval.evaluate(qrels, run, MEASURES)))]
    try:
        ranx = importlib.import_module("ranx")
    except ImportError:
        print("ranx is not installed")
    else:

        def with_ranx() -> Any:
            return ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), MEASURES, make_comparable=True)

        found = with_ranx()  # compiles
        assert all(np.isclose(found[name], ours[name], atol=1e-6) for name in MEASURES), (found, ours.means)
        rows.append(("ranx", cpu_seconds(with_ranx)))
    try:
        pytrec_eval = importlib.import_module("pytrec_eval")
    except ImportError:
        print("pytrec_eval is not installed")
    else:
        names = {"ndcg_cut_10", "recip_rank", "recall_100", "map_cut_100"}

        def with_pytrec_eval() -> Any:
            return pytrec_eval.RelevanceEvaluator(qrels, names).evaluate(run)

        values = with_pytrec_eval()
        mean = float(np.mean([row["ndcg_cut_10"] for row in values.values()]))
        assert np.isclose(mean, ours["ndcg@10"], atol=1e-6), (mean, ours["ndcg@10"])
        rows.append(("pytrec_eval", cpu_seconds(with_pytrec_eval)))
    print(f"{arguments.queries} queries, {arguments.results} results each, {len(MEASURES)} measures; CPU time")
    report(rows)


if __name__ == "__main__":
    main()
