"""Measures against values computed by hand, and the same values from every kind of input."""

import math
import random
from pathlib import Path

import numpy as np
import pandas
import polars
import pytest
import satiety
from satiety import retrieval

QRELS = {"q1": {"a": 3, "b": 0, "c": 2}, "q2": {"d": 1}}
RUN = {"q1": {"b": 9.5, "a": 9.0, "x": 1.0}, "q2": {"x": 2.0, "d": 1.0}}

IDEAL = 3 + 2 / math.log2(3)
BY_HAND = {
    "ndcg@10": (3 / math.log2(3) / IDEAL + 1 / math.log2(3)) / 2,
    "ndcg_burges@10": (7 / math.log2(3) / (7 + 3 / math.log2(3)) + 1 / math.log2(3)) / 2,
    "mrr": 0.5,
    "recall@2": (0.5 + 1) / 2,
    "precision@2": 0.5,
    "map": (0.25 + 0.5) / 2,
    "hit_rate@1": 0.0,
}


def test_values_by_hand() -> None:
    found = retrieval.evaluate(QRELS, RUN, list(BY_HAND))
    assert found.means == pytest.approx(BY_HAND)
    assert found["mrr"] == 0.5
    assert found.per_query("mrr") == {"q1": 0.5, "q2": 0.5}
    assert (found.values.shape, str(found.values.dtype)) == ((2, len(BY_HAND)), "float64")
    assert "ndcg@10" in repr(found)


def test_names_of_ir_measures() -> None:
    ours = ["ndcg@10", "ndcg_burges@5", "mrr@10", "recall@2", "precision@2", "map@100", "hit_rate@1", "rbp.8"]
    theirs = ["nDCG@10", "nDCG(dcg='exp-log2')@5", "RR@10", "R@2", "P@2", "AP@100", "Success@1", "RBP(p=0.8)"]
    left, right = (retrieval.evaluate(QRELS, RUN, names).values for names in (ours, theirs))
    assert np.array_equal(left, right)


def test_all_inputs_agree(tmp_path: Path) -> None:
    expected = retrieval.evaluate(QRELS, RUN).values
    judged = [(query, document, grade) for query, found in QRELS.items() for document, grade in found.items()]
    ranked = [(query, document, score) for query, found in RUN.items() for document, score in found.items()]
    (tmp_path / "qrels").write_text("".join(f"{query} 0 {document} {grade}\n" for query, document, grade in judged))
    (tmp_path / "run").write_text("".join(f"{query} Q0 {document} 1 {score} x\n" for query, document, score in ranked))
    qrels_names, run_names = ["query_id", "doc_id", "relevance"], ["query_id", "doc_id", "score"]
    pairs: list[tuple[object, object]] = [
        (pandas.DataFrame(judged, columns=qrels_names), pandas.DataFrame(ranked, columns=run_names)),
        (
            polars.DataFrame(judged, schema=qrels_names, orient="row"),
            polars.DataFrame(ranked, schema=run_names, orient="row"),
        ),
        (tmp_path / "qrels", str(tmp_path / "run")),
        (retrieval.qrels(QRELS), retrieval.run(RUN)),
    ]
    for qrels, run in pairs:
        assert np.array_equal(retrieval.evaluate(qrels, run).values, expected)


def test_numbers_are_ids_too() -> None:
    found = retrieval.evaluate({1: {2: 1}}, {1: {2: 0.5}}, "mrr")
    assert (found.queries, found["mrr"]) == (("1",), 1.0)


def test_queries_without_results_count_as_zero() -> None:
    qrels = {"q1": {"a": 1}, "q2": {"a": 1}}
    assert retrieval.evaluate(qrels, {"q1": {"a": 1.0}}, "mrr")["mrr"] == 0.5
    assert retrieval.evaluate(qrels, {"q1": {"a": 1.0}}, "mrr", missing="skip")["mrr"] == 1.0


def test_a_better_run_is_found_better() -> None:
    qrels = {f"q{query}": {"good": 1} for query in range(50)}
    before = {query: {"bad": 2.0, "good": 1.0} for query in qrels}
    after = {query: {"bad": 1.0, "good": 2.0} for query in qrels}
    found = retrieval.compare(qrels, before, after, ["nDCG@10", "mrr"])
    assert found.verdict == "better"
    assert [row.measure for row in found.measures] == ["nDCG@10", "mrr"]
    assert found.measures[1].difference == pytest.approx(0.5)
    assert retrieval.compare(qrels, before, before).verdict == "no_evidence"
    assert "better" in repr(found)
    assert "<svg" in found.plot()._repr_svg_()


def test_unknown_measures_are_named() -> None:
    with pytest.raises(satiety.SatietyError, match="invalid measure `foo@3`") as error:
        retrieval.evaluate(QRELS, RUN, ["foo@3"])
    assert error.value.where == "measures"


def test_dicts_are_evaluated_like_converted_runs() -> None:
    draw = random.Random(3)
    documents = [f"d{number}" for number in range(30)]
    measures = ["ndcg@10", "ndcg_burges@5", "mrr", "map", "recall@7", "precision@4", "bpref", "judged@5", "rbp.8"]
    for _ in range(50):
        # Few different scores, so that there are many ties; some queries are missing on either side.
        qrels = {
            f"q{query}": {document: draw.randrange(-1, 4) for document in draw.sample(documents, draw.randrange(8))}
            for query in range(6)
        }
        qrels["q0"]["d1"] = 2
        run = {
            f"q{query}": {
                document: float(draw.randrange(5)) for document in draw.sample(documents, draw.randrange(1, 20))
            }
            for query in range(2, 9)
        }
        left = retrieval.evaluate(qrels, run, measures)
        right = retrieval.evaluate(retrieval.qrels(qrels), retrieval.run(run), measures)
        assert left.queries == right.queries
        assert np.array_equal(left.values, right.values, equal_nan=True)
        assert (left.missing, left.unknown, left.without_relevant) == (
            right.missing,
            right.unknown,
            right.without_relevant,
        )
