"""Has an agent become worse? Verdicts about evaluation results that account for chance.

Results are given as rows ``(case, repeat, passed)`` or ``(case, passed)``, dicts with these keys, a mapping from cases
to outcomes, a pandas or polars frame with these columns, or the path of a result file: a run of Satiety, an Inspect
log, results of promptfoo, pytest, JUnit, lm-eval, HELM (file or directory) and DeepEval, or a table in CSV, TSV, JSON,
JSON Lines or Parquet (with pyarrow or polars).
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from . import _satiety
from ._decode import decode
from ._errors import SatietyError
from ._input import column, is_frame, real, sequence, text, to_list, whole
from ._table import Table
from .stats import Interval

if TYPE_CHECKING:
    from ._svg import Plot

Source = str | Path | Mapping[str, Any] | Iterable[Any] | Any
"""Rows, a mapping, a frame, or the path of a result file."""

_Options = tuple[str | None, float | None, tuple[float, float] | None, bool, list[str]]
"""How to read a result file: the deciding scorer, its threshold, range and direction, and columns."""

_DEFAULT: _Options = (None, None, None, False, [])

_CASE = ("case", "case_id", "id", "sample_id", "test")
_REPEAT = ("repeat", "epoch", "trial")
_PASSED = ("passed", "pass", "success", "status", "correct")
_SCORE = ("score",)
_LATENCY = ("latency_ms",)


@dataclass(frozen=True, slots=True)
class CaseChange:
    """A case that changed between two runs."""

    case_id: str
    kind: str
    reason: str
    decides: bool
    """Whether the change alone decides the verdict."""

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Table):
    """Verdict of the regression gate."""

    verdict: Literal["pass", "regression", "inconclusive"]
    reasons: tuple[str, ...]
    cases: int
    """Number of cases decided in both runs."""
    before: float | None
    """Pass rate before."""
    after: float | None
    """Pass rate after."""
    difference: float | None
    interval: Interval | None
    """90 % interval of the difference."""
    p_value: float | None
    """Exact one-sided p-value of "no case got worse"."""
    changes: tuple[CaseChange, ...]
    missing: int
    """Results that are missing because something other than the target failed."""

    def _rows(self) -> list[tuple[str, object]]:
        rows: list[tuple[str, object]] = [("verdict", self.verdict)]
        rows += [("reason", reason) for reason in self.reasons[:5]]
        rows += [("cases", self.cases), ("pass rate before", self.before), ("pass rate after", self.after)]
        rows += [("difference", self.difference), ("interval", self.interval), ("p-value", self.p_value)]
        rows += [("changed", change) for change in self.changes[:10]]
        return rows

    def plot(self) -> Plot:
        """Draw the difference of the pass rates with its interval."""
        from ._svg import interval_plot

        rows = [("pass rate", self.difference, self.interval)]
        return interval_plot([(name, value, found) for name, value, found in rows if value is not None and found])


@dataclass(frozen=True, slots=True, repr=False)
class SequentialState(Table):
    """State of a sequential test."""

    outcome: Literal["continue", "better", "worse", "no_difference", "exhausted"]
    pairs: int
    difference: float
    """Mean difference of the pass rates so far, after minus before."""
    e_value: float
    """Evidence of a difference; the test decides at ``1 / alpha``."""
    calls_saved: int
    """Planned calls that are no longer needed."""

    @property
    def decided(self) -> bool:
        """Whether no further pair is needed."""
        return self.outcome != "continue"


@dataclass(frozen=True, slots=True, repr=False)
class Power(Table):
    """What a design can detect before it is run."""

    text: str
    detectable: float | None
    """Smallest change of the pass rate that is detected; absent if not even a total failure is."""
    repeats_for_one_case: int
    """Repeats that show a single broken case in an otherwise stable suite."""
    smallest_case_p: float


@dataclass(frozen=True, slots=True, repr=False)
class Saturation(Table):
    """Whether a suite still tells good from better."""

    verdict: Literal["DISCRIMINATES", "SATURATED", "UNDERPOWERED"]
    reasons: tuple[str, ...]
    headroom: float
    """Mean distance of the cases to the ceiling."""
    detectable: float
    """Smallest improvement that the suite would show."""
    cases: int
    cases_needed: int | None
    always_pass: tuple[str, ...]
    never_pass: tuple[str, ...]
    flaky: tuple[str, ...]
    e_value: float | None
    """Evidence of saturation over all runs; shown from 20 on."""

    def _rows(self) -> list[tuple[str, object]]:
        rows: list[tuple[str, object]] = [("verdict", self.verdict)]
        rows += [("reason", reason) for reason in self.reasons]
        rows += [("cases", self.cases), ("headroom", self.headroom), ("detectable", self.detectable)]
        rows += [("always pass", len(self.always_pass)), ("never pass", len(self.never_pass))]
        rows += [("flaky", len(self.flaky)), ("evidence (e-value)", self.e_value)]
        return rows


def compare(
    before: Source,
    after: Source,
    *,
    alpha: float = 0.04,
    margin: float = 0.10,
    score_drop: float = 0.1,
    max_missing: float = 0.1,
    scorer: str | None = None,
    threshold: float | None = None,
    score_range: tuple[float, float] | None = None,
    lower_is_better: bool = False,
    columns: Mapping[str, str] | None = None,
) -> Comparison:
    """Compare two runs of the same cases: pass, regression or inconclusive.

    Args:
        before: Results of the accepted version.
        after: Results of the candidate.
        alpha: Probability of a false alarm for an unchanged system.
        margin: Largest drop of the pass rate that may go undetected.
        score_drop: Scores that drop by more than this are flagged.
        max_missing: Largest acceptable share of missing results.
        scorer: Score of a result file that decides; needed if several could.
        threshold: Value of that score from which a sample passes; needed for values outside of 0 to 1.
        score_range: Smallest and largest value of that score.
        lower_is_better: Whether samples pass at or below the threshold.
        columns: Meaning of columns of a table, such as ``{"case": "task_id", "passed": "ok"}``; the others are
            guessed.

    """
    choice = _options(scorer, threshold, score_range, lower_is_better, columns)
    policy = {
        "alpha": real(alpha, "alpha"),
        "margin": real(margin, "margin"),
        "score_drop": real(score_drop, "score_drop"),
        "max_missing": real(max_missing, "max_missing"),
    }
    report = _satiety.bench_compare(_results(before, "before", choice), _results(after, "after", choice), policy)
    rates: dict[str, Any] = report["pass"] or {}
    interval = rates.get("interval")
    return Comparison(
        verdict=report["verdict"],
        reasons=tuple(report["reasons"]),
        cases=rates.get("cases", 0),
        before=rates.get("baseline"),
        after=rates.get("candidate"),
        difference=rates.get("difference"),
        interval=decode(Interval, interval) if interval else None,
        p_value=rates.get("p_value"),
        changes=tuple(decode(CaseChange, change) for change in report["changes"]),
        missing=report["missing"],
    )


class Sequential:
    """Test that stops repeats as soon as the result is clear; it may be looked at after every pair.

    Args:
        cases: Number of cases in the suite.
        max_repeats: Largest number of repeats per case.
        alpha: Probability of a wrong decision.
        futility_margin: Stop also when a difference of this size is excluded.
        calls_per_pair: 2 if both versions are run, 1 if the results before exist already.

    """

    __slots__ = ("_test",)

    def __init__(
        self,
        cases: int,
        max_repeats: int = 1,
        *,
        alpha: float = 0.05,
        futility_margin: float | None = None,
        calls_per_pair: int = 1,
    ) -> None:
        options = {
            "cases": whole(cases, "cases"),
            "max_repeats": whole(max_repeats, "max_repeats"),
            "alpha": real(alpha, "alpha"),
            "futility_margin": None if futility_margin is None else real(futility_margin, "futility_margin"),
            "calls_per_pair": whole(calls_per_pair, "calls_per_pair"),
        }
        self._test = _satiety.Sequential(options)

    def observe(self, case: str, repeat: int, before: bool, after: bool) -> SequentialState:
        """Add the outcomes of one case and repeat in both versions."""
        outcomes = [_boolean(before, "before"), _boolean(after, "after")]
        number = whole(repeat, "repeat", 0, 2**32 - 1)
        return decode(SequentialState, self._test.observe(text(case, "case"), number, *outcomes))

    @property
    def state(self) -> SequentialState:
        """State after the last pair."""
        return decode(SequentialState, self._test.state())

    def __repr__(self) -> str:
        return repr(self.state)


def power(
    cases: int, repeats: int = 1, *, noise: float | None = None, alpha: float = 0.05, power: float = 0.8
) -> Power:
    """Say what a design can detect before it is run.

    Args:
        cases: Number of cases.
        repeats: Number of repeats per case, in both runs.
        noise: Mean over cases of ``p (1 - p)``; that of a pass rate of 85 % if absent.
        alpha: False-alarm level.
        power: Required probability of detecting a difference.

    """
    design = {
        "cases": whole(cases, "cases"),
        "repeats": whole(repeats, "repeats"),
        "alpha": real(alpha, "alpha"),
        "power": real(power, "power"),
    }
    if noise is not None:
        design["noise"] = real(noise, "noise")
    return decode(Power, _satiety.bench_power(design))


def saturation(
    runs: Iterable[Source], *, alpha: float = 0.05, power: float = 0.8, noise_ceiling: float = 1.0
) -> Saturation:
    """Measure whether a suite still discriminates.

    Args:
        runs: Results of the accepted versions, oldest first.
        alpha: Level at which an improvement counts as shown.
        power: Desired probability that an improvement is detected.
        noise_ceiling: Best achievable score, given errors of judges and labels.

    """
    if is_frame(runs):
        raise SatietyError("runs must be a list of runs, not one frame", where="runs")
    results = [_results(run, f"runs[{index}]") for index, run in enumerate(sequence(runs, "runs"))]
    if not results:
        raise SatietyError("runs must not be empty", where="runs")
    options = {
        "alpha": real(alpha, "alpha"),
        "power": real(power, "power"),
        "noise_ceiling": real(noise_ceiling, "noise_ceiling"),
    }
    found = _satiety.bench_saturation(results, options)
    measured, evidence = found["measured"], found["evidence"]
    headroom, items = measured["headroom"], measured["items"]
    return Saturation(
        verdict=measured["verdict"],
        reasons=tuple(measured["reasons"]),
        headroom=headroom["headroom"],
        detectable=headroom["detectable"],
        cases=headroom["cases"],
        cases_needed=headroom["cases_needed"],
        always_pass=tuple(items["always_pass"]),
        never_pass=tuple(items["never_pass"]),
        flaky=tuple(items["flaky"]),
        e_value=None if evidence is None else _e_value(evidence["strongest"]),
    )


def _e_value(evidence: dict[str, float]) -> float:
    import math

    return math.exp(min(evidence["ln_e"], 700.0))


def _boolean(value: object, where: str) -> bool:
    # numpy's booleans are not Python's.
    if isinstance(value, bool) or type(value).__name__ == "bool":
        return bool(value)
    if isinstance(value, (int, float)) and value in (0, 1):
        return value == 1
    raise SatietyError(f"{where} must be True or False, not {type(value).__name__}", where=where)


def _status(value: object, where: str) -> str:
    # NaN stands for an absent value in pandas.
    if value is None or (isinstance(value, float) and value != value):
        return "pending"
    if isinstance(value, str):
        return text(value, where).lower()
    return "pass" if _boolean(value, where) else "fail"


def _options(scorer: Any, threshold: Any, scale: Any, lower_is_better: Any, columns: Any) -> _Options:
    bounds = None if scale is None else [real(value, "score_range") for value in sequence(scale, "score_range")]
    if bounds is not None and len(bounds) != 2:
        raise SatietyError("score_range must be (low, high)", where="score_range")
    if columns is not None and not isinstance(columns, Mapping):
        raise SatietyError(f"columns must be a dict, not {type(columns).__name__}", where="columns")
    named: Mapping[Any, Any] = columns or {}
    return (
        None if scorer is None else text(scorer, "scorer"),
        None if threshold is None else real(threshold, "threshold"),
        None if bounds is None else (bounds[0], bounds[1]),
        _boolean(lower_is_better, "lower_is_better"),
        [f"{text(role, 'columns')}={text(name, 'columns')}" for role, name in named.items()],
    )


def _results(source: Source, where: str, choice: _Options = _DEFAULT) -> _satiety.Results:
    if isinstance(source, _satiety.Results):
        return source
    if isinstance(source, (str, Path)):
        return _read(Path(source), where, choice)
    rows: list[tuple[str, int, str, float | None, float | None]] = []
    seen: set[tuple[str, int]] = set()
    for index, (case, repeat, passed, score, latency) in enumerate(_rows(source, where)):
        place = f"{where}[{index}]"
        if isinstance(case, bool) or not isinstance(case, (str, int)):
            raise SatietyError(f"{place}.case must be a string, not {type(case).__name__}", where=f"{place}.case")
        case = text(str(case), f"{place}.case")
        number = whole(repeat, f"{place}.repeat", 0, 2**32 - 1)
        if (case, number) in seen:
            message = f"{place} repeats case {case!r}, repeat {number}"
            raise SatietyError(message, hint="number the repeats of a case", where=place)
        seen.add((case, number))
        measured = [
            None if value is None else real(value, f"{place}.{name}")
            for name, value in (("score", score), ("latency_ms", latency))
        ]
        rows.append((case, number, _status(passed, f"{place}.passed"), measured[0], measured[1]))
    if not rows:
        raise SatietyError(f"{where} must not be empty", where=where)
    return _satiety.Results(where, rows)


def _rows(source: Any, where: str) -> Iterable[tuple[Any, Any, Any, Any, Any]]:
    if is_frame(source):
        cases, passed = column(source, _CASE, where), column(source, _PASSED, where)
        others = [column(source, names, where, optional=True) for names in (_REPEAT, _SCORE, _LATENCY)]
        count = len(cases)
        repeats, scores, latencies = ([None] * count if other is None else to_list(other) for other in others)
        yield from _numbered(zip(to_list(cases), repeats, to_list(passed), scores, latencies, strict=True))
    elif isinstance(source, Mapping):
        mapping: Mapping[Any, Any] = source
        for case, outcomes in mapping.items():
            several: list[Any] = outcomes if isinstance(outcomes, list) else [outcomes]
            yield from ((case, repeat, outcome, None, None) for repeat, outcome in enumerate(several))
    else:
        entries = sequence(source, where)
        yield from _numbered(_row(entry, f"{where}[{index}]") for index, entry in enumerate(entries))


def _numbered(rows: Iterable[tuple[Any, Any, Any, Any, Any]]) -> Iterable[tuple[Any, Any, Any, Any, Any]]:
    """Number the repeats of rows that have none, in order."""
    counts: dict[Any, int] = {}
    for case, repeat, passed, score, latency in rows:
        if repeat is None:
            key = case if isinstance(case, (str, int)) else None
            repeat, counts[key] = counts.get(key, 0), counts.get(key, 0) + 1
        yield case, repeat, passed, score, latency


def _row(entry: Any, where: str) -> tuple[Any, Any, Any, Any, Any]:
    if isinstance(entry, Mapping):
        fields: Mapping[str, Any] = entry

        def pick(names: tuple[str, ...]) -> Any:
            return next((fields[name] for name in names if name in fields), None)

        for names in (_CASE, _PASSED):
            if not any(name in fields for name in names):
                raise SatietyError(f"{where} has no {names[0]!r}", where=f"{where}.{names[0]}")
        return pick(_CASE), pick(_REPEAT), pick(_PASSED), pick(_SCORE), pick(_LATENCY)
    if hasattr(entry, "__dataclass_fields__") and not isinstance(entry, type):
        return _row({name: getattr(entry, name) for name in entry.__dataclass_fields__}, where)
    if isinstance(entry, (tuple, list)):
        parts: list[Any] = list(entry)
        if len(parts) == 2:
            return parts[0], None, parts[1], None, None
        if len(parts) == 3:
            return parts[0], parts[1], parts[2], None, None
    raise SatietyError(f"{where} must be (case, repeat, passed) or (case, passed)", where=where)


def _read(path: Path, where: str, choice: _Options) -> _satiety.Results:
    """Read a result file of any known tool, or a run directory of HELM."""
    stats = path / "per_instance_stats.json"
    try:
        if stats.is_file():
            path = stats
        if path.suffix == ".eval":
            return _read_archive(path, choice)
        is_table = path.suffix == ".parquet"
        content = _parquet_rows(path) if is_table else path.read_text(encoding="utf-8")
        beside = {
            name: (path.parent / name).read_text(encoding="utf-8")
            for name in ("scenario_state.json", "run_spec.json")
            if path.name == stats.name and (path.parent / name).is_file()
        }
        changed = path.stat().st_mtime
    except (OSError, ValueError) as error:
        raise SatietyError(f"cannot read {str(path)!r}: {error}", where=where) from None
    folder = path.resolve().parent.name
    return _satiety.Results.from_file(str(path), folder, changed, content, beside, choice, is_table)


def _parquet_rows(path: Path) -> str:
    """Rows of a Parquet file as a JSON list."""
    rows: list[dict[str, Any]]
    try:
        # By name: the package is optional, and checking types must not need it.
        rows = importlib.import_module("pyarrow.parquet").read_table(path).to_pylist()
    except ImportError:
        try:
            import polars
        except ImportError:
            raise SatietyError(
                f"cannot read {str(path)!r}: neither pyarrow nor polars is installed",
                hint="install pyarrow, or compare with the command: `satiety bench compare`",
                where=str(path),
            ) from None
        rows = polars.read_parquet(path).to_dicts()
    return json.dumps(rows, default=str)


def _read_archive(path: Path, choice: _Options) -> _satiety.Results:
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            header = "header.json" if "header.json" in names else "_journal/start.json"
            samples = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
            texts = [archive.read(name).decode("utf-8") for name in (header, *sorted(samples))]
    except (KeyError, NotImplementedError, zipfile.BadZipFile) as error:
        raise SatietyError(
            f"cannot read {path}: {error}", hint="convert it: `inspect log convert --to json`", where=str(path)
        ) from None
    return _satiety.Results.from_inspect(path.name, texts[0], texts[1:], choice)
