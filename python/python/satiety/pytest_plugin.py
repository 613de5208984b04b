"""pytest plug-in: repeated tests, pass^k, and a gate that fails only on a regression beyond chance.

Mark a test of a non-deterministic system with ``@pytest.mark.satiety(repeats=5)``. It runs five times, and the summary
shows how often it passed. ``--satiety-update`` writes the results to the baseline file; ``--satiety-gate`` compares
with it: single failures of marked tests no longer fail the session, a regression beyond chance does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from .bench import Comparison

_FIXTURE = "_satiety_repeat"
_PROPERTY = "satiety"
_DEFAULT_BASELINE = "satiety-baseline.json"
_DEFAULT_REPEATS = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("satiety", "repeated tests and the regression gate")
    group.addoption(
        "--satiety-gate",
        action="store_true",
        help="compare marked tests with the baseline file and fail only on a regression beyond chance",
    )
    group.addoption("--satiety-update", action="store_true", help="write the results to the baseline file")
    group.addoption("--satiety-baseline", metavar="FILE", help=f"baseline file [default: {_DEFAULT_BASELINE}]")
    group.addoption("--satiety-repeats", metavar="N", type=int, help="repeats of all marked tests")
    parser.addini("satiety_baseline", "baseline file, relative to the root directory", default=_DEFAULT_BASELINE)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and check the baseline before anything runs."""
    config.addinivalue_line(
        "markers", f"satiety(repeats={_DEFAULT_REPEATS}): run a test several times and count how often it passes"
    )
    if hasattr(config, "workerinput"):  # the process that started this one decides
        return
    gate, path = bool(config.getoption("satiety_gate")), _baseline_path(config)
    baseline = _read_baseline(path) if gate else []
    session = _Session(gate, bool(config.getoption("satiety_update")), path, baseline)
    config.pluginmanager.register(session, "satiety-session")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat marked tests."""
    marker = metafunc.definition.get_closest_marker("satiety")
    if marker is None:
        return
    repeats = metafunc.config.getoption("satiety_repeats") or marker.kwargs.get("repeats", _DEFAULT_REPEATS)
    if not isinstance(repeats, int) or repeats < 1:
        name = metafunc.function.__name__
        raise pytest.UsageError(f"cannot repeat {name}: repeats must be at least 1, not {repeats!r}")
    metafunc.fixturenames.append(_FIXTURE)
    metafunc.parametrize(_FIXTURE, range(repeats), ids=_repeat_id)


@pytest.fixture
def _satiety_repeat(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach case, repeat and outcome to the report of a marked test."""
    report = yield
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    if report.when != "call" or report.skipped or _FIXTURE not in parameters:
        return report
    repeat = parameters[_FIXTURE]
    row = {"case": _case_id(item.nodeid, repeat), "repeat": repeat, "passed": report.passed}
    report.user_properties.append((_PROPERTY, row))
    if report.failed and item.config.getoption("satiety_gate"):
        # The gate decides about all repeats together.
        report.outcome = "skipped"
        report.wasxfail = "counted by the satiety gate"
    return report


def _case_id(node_id: str, repeat: int) -> str:
    """Node id without the part that names the repeat, which is the same for all repeats of a case."""
    name, _, parameters = node_id.removesuffix("]").partition("[")
    parts = parameters.split("-")
    parts.remove(_repeat_id(repeat))
    return f"{name}[{'-'.join(parts)}]" if parts else name


def _repeat_id(repeat: int) -> str:
    return f"repeat{repeat + 1}"


@dataclass(eq=False)
class _Session:
    """Results of a session, in the process that reports them."""

    gate: bool
    update: bool
    path: Path
    baseline: list[dict[str, Any]]
    rows: list[dict[str, Any]] = field(default_factory=list)
    report: Comparison | None = None
    left_out: int = 0
    """Number of cases of the baseline that this session did not run."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the outcome of a repeat, also from another process."""
        if report.when == "call":
            found = [value for name, value in report.user_properties if name == _PROPERTY]
            self.rows.extend(cast("list[dict[str, Any]]", found))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Compare with the baseline, or write it."""
        if self.rows and self.gate:
            self._compare(session)
        if self.rows and self.update:
            text = json.dumps({"version": 1, "results": self.rows}, indent=1)
            self.path.write_text(text + "\n", encoding="utf-8")

    def _compare(self, session: pytest.Session) -> None:
        from .bench import compare

        # The session may have run a part of the tests only.
        now = {row["case"] for row in self.rows}
        before = [row for row in self.baseline if row["case"] in now]
        self.left_out = len({row["case"] for row in self.baseline} - now)
        if not before:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
            return
        self.report = compare(before, self.rows)
        if self.report.verdict == "regression" and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print how often each case passed, and the verdict."""
        if not self.rows:
            return
        terminalreporter.section("satiety")
        outcomes: dict[str, list[bool]] = {}
        for row in self.rows:
            outcomes.setdefault(row["case"], []).append(row["passed"])
        for case, passed in sorted(outcomes.items()):
            terminalreporter.write_line(f"{sum(passed)} of {len(passed)} passed  {_pass_hat(passed)}  {case}")
        if self.report is not None:
            terminalreporter.write_line("")
            terminalreporter.write_line(f"gate: {self.report.verdict} (baseline {self.path})")
            terminalreporter.write_line(str(self.report))
        elif self.gate:
            terminalreporter.write_line(f"cannot gate: no case of {self.path} was run", red=True)
        if self.left_out:
            terminalreporter.write_line(f"cases of the baseline that were not run: {self.left_out}")
        if self.update:
            terminalreporter.write_line(f"wrote {len(self.rows)} results to {self.path}")


def _pass_hat(passed: list[bool]) -> str:
    """pass^k for k = 2 and all repeats: the probability that k repeats all pass."""
    tries, successes = len(passed), sum(passed)
    parts = [f"pass^{k} {comb(successes, k) / comb(tries, k):.0%}" for k in sorted({min(2, tries), tries})]
    return ", ".join(parts)


def _baseline_path(config: pytest.Config) -> Path:
    given = config.getoption("satiety_baseline")
    return Path(given) if given else config.rootpath / config.getini("satiety_baseline")


def _read_baseline(path: Path) -> list[dict[str, Any]]:
    try:
        results = json.loads(path.read_text(encoding="utf-8"))["results"]
        return [{"case": row["case"], "repeat": row["repeat"], "passed": row["passed"]} for row in results]
    except FileNotFoundError:
        hint = "run the tests with --satiety-update on the version to compare with"
        raise pytest.UsageError(f"cannot gate: no baseline at {path}\nhint: {hint}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise pytest.UsageError(f"cannot gate: {path} is not a baseline: {error!r}") from error
