from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from scripted import guide_example

if TYPE_CHECKING:
    from pathlib import Path

pytest_plugins = ["pytester"]

EVALUATION = """
import random
import pytest

@pytest.mark.satiety(repeats={repeats})
@pytest.mark.parametrize("case", range({cases}))
def test_agent(case, request):
    draw = random.Random(f"{seed} {{request.node.name}}")
    assert draw.random() < {rate}
"""


def write(pytester: pytest.Pytester, *, rate: float, seed: int, cases: int = 6, repeats: int = 5) -> None:
    pytester.makepyfile(test_evaluation=EVALUATION.format(rate=rate, seed=seed, cases=cases, repeats=repeats))


@pytest.fixture(autouse=True)
def no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test file that is written twice in a second must be compiled twice."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", *arguments)


def test_marked_tests_are_repeated_and_summarized(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        outcomes = iter([True, True, False, True])

        @pytest.mark.satiety(repeats=4)
        def test_flaky():
            assert next(outcomes)

        def test_plain():
            pass
        """
    )
    result = run(pytester)
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["3 of 4 passed  pass^2 50%, pass^4 0%  *::test_flaky"])
    result = run(pytester, "--satiety-repeats", "2")
    result.assert_outcomes(passed=3)


def test_the_gate_fails_only_on_a_regression(pytester: pytest.Pytester) -> None:
    write(pytester, rate=0.85, seed=1)
    result = run(pytester, "--satiety-update")
    assert result.ret == pytest.ExitCode.TESTS_FAILED, "without the gate, a failure is a failure"
    result.stdout.fnmatch_lines(["wrote 30 results to *satiety-baseline.json"])

    write(pytester, rate=0.85, seed=2)
    result = run(pytester, "--satiety-gate")
    assert result.ret == pytest.ExitCode.OK
    assert result.parseoutcomes()["xfailed"] >= 1
    assert "gate: regression" not in result.stdout.str()

    write(pytester, rate=0.2, seed=3)
    result = run(pytester, "--satiety-gate")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["gate: regression (baseline *satiety-baseline.json)"])


def test_an_unchanged_system_rarely_fails_the_gate(pytester: pytest.Pytester) -> None:
    write(pytester, rate=0.8, seed=0)
    run(pytester, "--satiety-update")
    failed = 0
    for seed in range(1, 21):
        write(pytester, rate=0.8, seed=seed)
        failed += run(pytester, "--satiety-gate").ret != pytest.ExitCode.OK
    assert failed <= 3


def test_other_failures_fail_with_the_gate(pytester: pytest.Pytester) -> None:
    write(pytester, rate=1.1, seed=1)
    run(pytester, "--satiety-update")
    pytester.makepyfile(test_plain="def test_plain():\n    assert False\n")
    assert run(pytester, "--satiety-gate").ret == pytest.ExitCode.TESTS_FAILED
    pytester.makepyfile(
        test_plain="""
        import pytest

        @pytest.fixture
        def database():
            raise OSError("no connection")

        @pytest.mark.satiety
        def test_setup(database):
            pass
        """
    )
    assert run(pytester, "--satiety-gate").ret == pytest.ExitCode.TESTS_FAILED


def test_a_gate_needs_a_baseline(pytester: pytest.Pytester) -> None:
    write(pytester, rate=1.1, seed=1)
    result = run(pytester, "--satiety-gate")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*cannot gate: no baseline at *", "*hint: run the tests with --satiety-update*"])
    (pytester.path / "satiety-baseline.json").write_text("[]")
    result = run(pytester, "--satiety-gate")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*is not a baseline*"])


def test_new_cases_are_not_a_regression(pytester: pytest.Pytester) -> None:
    write(pytester, rate=1.1, seed=1, cases=2)
    run(pytester, "--satiety-update")
    write(pytester, rate=1.1, seed=1, cases=4)
    assert run(pytester, "--satiety-gate").ret == pytest.ExitCode.OK
    pytester.path.joinpath("test_evaluation.py").rename(pytester.path / "test_moved.py")
    result = run(pytester, "--satiety-gate")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["cannot gate: no case of *satiety-baseline.json was run"])


def test_a_part_of_the_cases_is_compared(pytester: pytest.Pytester) -> None:
    write(pytester, rate=1.1, seed=1)
    pytester.makepyfile(test_other="import pytest\n\n@pytest.mark.satiety\ndef test_other():\n    pass\n")
    run(pytester, "--satiety-update")
    result = run(pytester, "--satiety-gate", "test_evaluation.py")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["gate: pass (baseline *", "cases of the baseline that were not run: 1"])


def test_repeats_must_be_positive(pytester: pytest.Pytester) -> None:
    write(pytester, rate=1.1, seed=1, repeats=0)
    result = run(pytester)
    assert result.ret != pytest.ExitCode.OK
    assert "repeats must be at least 1, not 0" in result.stdout.str() + result.stderr.str()


@pytest.mark.parametrize("workers", ["0", "2"])
def test_results_of_other_processes_are_collected(pytester: pytest.Pytester, workers: str) -> None:
    pytest.importorskip("xdist")
    write(pytester, rate=1.1, seed=1)
    pytester.makeini("[pytest]\nsatiety_baseline = results/baseline.json\n")
    (pytester.path / "results").mkdir()
    result = run(pytester, "-n", workers, "--satiety-update")
    assert result.ret == pytest.ExitCode.OK
    rows: list[dict[str, Any]] = read(pytester.path / "results" / "baseline.json")
    assert len(rows) == 30
    assert {row["repeat"] for row in rows} == set(range(5))
    assert len({row["case"] for row in rows}) == 6
    assert run(pytester, "-n", workers, "--satiety-gate").ret == pytest.ExitCode.OK


def test_the_example_of_the_guide_is_repeated(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(guide_example("pytest") + "\n\ndef agent(_):\n    return 'In May.'\n")
    run(pytester).assert_outcomes(passed=5)


def read(path: Path) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = json.loads(path.read_text())["results"]
    return results
