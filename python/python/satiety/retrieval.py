"""Is a ranking good, and is another one better?

Judgments and runs are given as nested dicts ``{query: {document: value}}``, as pandas or polars frames with columns
for query, document and value, or as paths of files of ``trec_eval``. Measures are named as in ranx and ir_measures:
``ndcg@10`` or ``nDCG@10`` has the grade as gain, ``ndcg_burges@10`` the gain ``2^grade - 1``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from . import _satiety
from ._decode import decode
from ._errors import SatietyError
from ._input import column, floats, is_frame, real, text, to_list, whole
from ._table import Table
from .stats import Interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ._svg import Plot

Qrels = _satiety.Qrels
"""Judgments that were converted once, for several evaluations; see :func:`qrels`."""

Run = _satiety.Run
"""A run that was converted once, for several evaluations; see :func:`run`."""

if TYPE_CHECKING:
    QrelsSource = Qrels | Mapping[str, Mapping[str, int]] | str | Path | Any
    RunSource = Run | Mapping[str, Mapping[str, float]] | str | Path | Any

_QUERY = ("query_id", "q_id", "qid", "query", "query-id")
_DOCUMENT = ("doc_id", "docno", "docid", "document", "corpus-id")
_GRADE = ("relevance", "grade", "rel", "label", "score")
_SCORE = ("score", "sim")

DEFAULT_MEASURES = ("ndcg@10", "mrr@10", "recall@10")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Evaluation(Table):
    """Values of a run."""

    measures: tuple[str, ...]
    queries: tuple[str, ...]
    values: NDArray[np.float64]
    """One row per query and one column per measure; NaN where a measure is undefined."""
    missing: int = 0
    """Judged queries without results."""
    unknown: int = 0
    """Queries of the run without judgments; they are not evaluated."""
    without_relevant: int = 0
    """Queries without a relevant document."""

    @property
    def means(self) -> dict[str, float]:
        """Mean of each measure over the queries where it is defined."""
        import numpy as np

        return {
            name: float(np.nanmean(column)) if np.isfinite(column).any() else float("nan")
            for name, column in zip(self.measures, self.values.T, strict=True)
        }

    def __getitem__(self, measure: str) -> float:
        if measure not in self.measures:
            known = ", ".join(self.measures)
            raise SatietyError(f"unknown measure {measure!r} (expected one of: {known})", where="measure")
        return self.means[measure]

    def per_query(self, measure: str) -> dict[str, float]:
        """Value of each query."""
        index = self.measures.index(measure) if measure in self.measures else -1
        if index < 0:
            raise SatietyError(f"unknown measure {measure!r}", where="measure")
        return dict(zip(self.queries, self.values[:, index].tolist(), strict=True))

    def _head(self) -> tuple[str, ...]:
        return ("measure", "mean", "queries")

    def _rows(self) -> list[tuple[object, ...]]:
        return [(name, mean, len(self.queries)) for name, mean in self.means.items()]


@dataclass(frozen=True, slots=True)
class MeasureComparison:
    """Comparison by one measure; differences are after minus before."""

    measure: str
    queries: int
    before: float
    after: float
    difference: float
    interval: Interval | None
    p_value: float
    """Two-sided p-value of the randomization test, corrected for the number of measures (Holm)."""
    wins: int
    losses: int
    ties: int
    detectable: float | None
    """Smallest true difference that would be detected with a power of 80 %."""
    verdict: Literal["better", "worse", "no_evidence"]


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Table):
    """Comparison of two runs; the first measure decides."""

    verdict: Literal["better", "worse", "no_evidence"]
    queries: int
    measures: tuple[MeasureComparison, ...]
    regressions: tuple[tuple[str, float], ...] = field(default=())
    """Queries that lost most by the first measure, with their differences."""

    def _head(self) -> tuple[str, ...]:
        return ("measure", "before", "after", "difference", "interval", "p", "wins", "losses", "verdict")

    def _rows(self) -> list[tuple[object, ...]]:
        return [
            (
                *(row.measure, row.before, row.after, row.difference, row.interval),
                *(row.p_value, row.wins, row.losses, row.verdict),
            )
            for row in self.measures
        ]

    def plot(self) -> Plot:
        """Draw the differences with their intervals."""
        from ._svg import interval_plot

        return interval_plot([(row.measure, row.difference, row.interval) for row in self.measures if row.interval])


def qrels(source: Any) -> Qrels:
    """Convert judgments once, for several evaluations."""
    if isinstance(source, Qrels):
        return source
    if isinstance(source, dict):
        return Qrels.from_dict(_filled(source, "qrels"))
    if isinstance(source, (str, Path)):
        return Qrels.from_trec(_read(source, "qrels"))
    if is_frame(source):
        import numpy as np

        grades = floats(column(source, _GRADE, "qrels"), "qrels.relevance")
        if not np.all(grades == np.trunc(grades)):
            raise SatietyError("qrels.relevance must be whole numbers", where="qrels.relevance")
        ids = to_list(column(source, _QUERY, "qrels")), to_list(column(source, _DOCUMENT, "qrels"))
        return Qrels.from_columns(*ids, grades.astype(np.int64))
    if isinstance(getattr(source, "qrels", None), dict):  # ranx
        return Qrels.from_dict(_filled({query: dict(found) for query, found in source.qrels.items()}, "qrels"))
    raise SatietyError(f"qrels must be a dict, a frame or a path, not {type(source).__name__}", where="qrels")


def run(source: Any, where: str = "run") -> Run:
    """Convert a run once, for several evaluations."""
    if isinstance(source, Run):
        return source
    if isinstance(source, dict):
        return Run.from_dict(_filled(source, where))
    if isinstance(source, (str, Path)):
        return Run.from_trec(_read(source, where))
    if is_frame(source):
        ids = to_list(column(source, _QUERY, where)), to_list(column(source, _DOCUMENT, where))
        return Run.from_columns(*ids, floats(column(source, _SCORE, where), f"{where}.score"))
    if isinstance(getattr(source, "run", None), dict):  # ranx
        return Run.from_dict(_filled({query: dict(found) for query, found in source.run.items()}, where))
    raise SatietyError(f"{where} must be a dict, a frame or a path, not {type(source).__name__}", where=where)


def evaluate(
    qrels: QrelsSource,
    run: RunSource,
    measures: str | Sequence[str] = DEFAULT_MEASURES,
    *,
    relevance_threshold: int = 1,
    missing: Literal["zero", "skip"] = "zero",
    no_relevant: Literal["zero", "skip"] = "zero",
    unjudged: Literal["irrelevant", "condensed"] = "irrelevant",
) -> Evaluation:
    """Evaluate a run.

    Args:
        qrels: Judgments.
        run: Results with scores; equal scores are ordered like in ``trec_eval``.
        measures: Names such as ``ndcg@10``.
        relevance_threshold: Smallest grade of a relevant document.
        missing: Value of judged queries without results.
        no_relevant: Value of queries without relevant documents.
        unjudged: Whether results without a judgment count as irrelevant or are removed.

    """
    names = _names(measures)
    options = _options(relevance_threshold, missing, no_relevant, unjudged)
    found = None
    if isinstance(qrels, dict) and isinstance(run, dict):
        found = _satiety.retrieval_evaluate_dicts(qrels, run, names, options)
    if found is None:
        found = _satiety.retrieval_evaluate(_qrels(qrels), _run(run), names, options)
    queries, values, counts = found
    return Evaluation(tuple(names), tuple(queries), values, **counts)


def compare(
    qrels: QrelsSource,
    before: RunSource,
    after: RunSource,
    measures: str | Sequence[str] = DEFAULT_MEASURES,
    *,
    alpha: float = 0.05,
    resamples: int = 1000,
    seed: int = 0,
    relevance_threshold: int = 1,
    missing: Literal["zero", "skip"] = "zero",
    no_relevant: Literal["zero", "skip"] = "zero",
    unjudged: Literal["irrelevant", "condensed"] = "irrelevant",
) -> Comparison:
    """Compare two runs on the same judgments; the first measure decides.

    Args:
        qrels: Judgments.
        before: Results of the current system.
        after: Results of the new system.
        measures: Names such as ``ndcg@10``; each one reduces the power of the others.
        alpha: Significance level over all measures together.
        resamples: Number of bootstrap resamples of the intervals.
        seed: Seed of the resamples.
        relevance_threshold: Smallest grade of a relevant document.
        missing: Value of judged queries without results.
        no_relevant: Value of queries without relevant documents.
        unjudged: Whether results without a judgment count as irrelevant or are removed.

    """
    names = _names(measures)
    options = _options(relevance_threshold, missing, no_relevant, unjudged)
    bootstrap = {"resamples": whole(resamples, "resamples", 1), "seed": whole(seed, "seed")}
    found = _satiety.retrieval_compare(
        _qrels(qrels), _run(before, "before"), _run(after, "after"), names, options, real(alpha, "alpha"), bootstrap
    )
    return Comparison(
        verdict=found["verdict"],
        queries=found["queries"],
        measures=tuple(
            MeasureComparison(
                measure=row["measure"],
                queries=row["queries"],
                before=row["control"],
                after=row["treatment"],
                difference=row["difference"],
                interval=decode(Interval, row["ci"]) if row["ci"] else None,
                p_value=row["p_holm"],
                wins=row["wins"],
                losses=row["losses"],
                ties=row["ties"],
                detectable=row["detectable"],
                verdict=row["verdict"],
            )
            for row in found["measures"]
        ),
        regressions=tuple((change["query"], change["difference"]) for change in found["regressions"]),
    )


# The functions above have parameters with these names.
_qrels = qrels
_run = run


def _options(threshold: int, missing: str, no_relevant: str, unjudged: str) -> dict[str, object]:
    return {
        "relevance_threshold": whole(threshold, "relevance_threshold", -(2**31), 2**31 - 1),
        "missing": missing,
        "no_relevant": no_relevant,
        "unjudged": unjudged,
    }


def _names(measures: object) -> list[str]:
    if isinstance(measures, str):
        return [text(measures, "measures")]
    if not isinstance(measures, (list, tuple)):
        raise SatietyError(f"measures must be names, not {type(measures).__name__}", where="measures")
    names: list[str] = []
    entries: list[object] = list(measures)
    for index, entry in enumerate(entries):
        # Objects of ir_measures print their names.
        if isinstance(entry, str) or type(entry).__module__.startswith("ir_measures"):
            names.append(text(str(entry), f"measures[{index}]"))
        else:
            raise SatietyError(f"measures[{index}] must be a name", where=f"measures[{index}]")
    return names


def _filled(lists: dict[Any, Any], where: str) -> dict[Any, Any]:
    if not lists:
        raise SatietyError(f"{where} must not be empty", where=where)
    return lists


def _read(path: str | Path, where: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise SatietyError(f"cannot read {str(path)!r}: {error}", where=where) from None
