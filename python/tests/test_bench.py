"""The gate, the sequential test, power and saturation, from every kind of input."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas
import polars
import pytest
import satiety
from satiety import bench


def rows(passing: int, cases: int = 20, repeats: int = 5) -> list[tuple[str, int, bool]]:
    return [(f"c{case}", repeat, case < passing) for case in range(cases) for repeat in range(repeats)]


def test_an_unchanged_run_passes() -> None:
    found = bench.compare(rows(15), rows(15))
    assert (found.verdict, found.cases, found.difference) == ("pass", 20, 0.0)
    assert "verdict" in repr(found)
    assert "<table>" in found._repr_html_()
    assert found.plot()._repr_svg_().startswith("<svg")


def test_broken_cases_are_a_regression() -> None:
    found = bench.compare(rows(20), rows(16))
    assert found.verdict == "regression"
    assert found.p_value is not None
    assert found.p_value < 0.01
    assert {change.case_id for change in found.changes} == {"c16", "c17", "c18", "c19"}


def test_one_repeat_cannot_show_one_broken_case() -> None:
    found = bench.compare(rows(20, repeats=1), rows(19, repeats=1))
    assert found.verdict == "inconclusive"
    assert found.reasons


@dataclass
class Outcome:
    case: str
    repeat: int
    passed: bool


def test_all_inputs_agree(tmp_path: Path) -> None:
    expected = bench.compare(rows(20), rows(16))
    after = rows(16)
    names = ["case", "repeat", "passed"]
    records = [dict(zip(names, row, strict=True)) for row in after]
    frame = pandas.DataFrame(records)
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, records)))
    (tmp_path / "rows.json").write_text(json.dumps(records))
    frame.to_csv(tmp_path / "rows.csv", index=False)
    inspect = {
        "version": 2,
        "status": "success",
        "eval": {"run_id": "r", "created": "2026-01-01T00:00:00Z", "task": "t", "model": "m"},
        "samples": [
            {
                "id": case,
                "epoch": repeat + 1,
                "input": "",
                "target": "",
                "scores": {"match": {"value": "C" if passed else "I"}},
            }
            for case, repeat, passed in after
        ],
    }
    (tmp_path / "log.json").write_text(json.dumps(inspect))
    mapping: dict[str, list[bool]] = {}
    for case, _, passed in after:
        mapping.setdefault(case, []).append(passed)
    sources: list[object] = [
        records,
        frame,
        polars.DataFrame(records),
        mapping,
        [Outcome(*row) for row in after],
        [(case, passed) for case, _, passed in after],
        *(tmp_path / name for name in ("rows.jsonl", "rows.json", "rows.csv", "log.json")),
        str(tmp_path / "rows.json"),
    ]
    for source in sources:
        found = bench.compare(rows(20), source)
        assert (found.verdict, found.after, found.p_value) == (expected.verdict, expected.after, expected.p_value)


def test_the_deciding_scorer_of_an_inspect_log_is_chosen(tmp_path: Path) -> None:
    log = {
        "version": 2,
        "status": "success",
        "eval": {"run_id": "r", "created": "2026-01-01T00:00:00Z", "task": "t", "model": "m"},
        "samples": [
            {
                "id": number,
                "epoch": 1,
                "input": "",
                "target": "",
                "scores": {"suspicion": {"value": 7}, "match": {"value": "C" if number % 2 else "I"}},
            }
            for number in range(20)
        ],
    }
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    with pytest.raises(satiety.SatietyError, match="suspicion"):
        bench.compare(path, path)
    assert bench.compare(path, path, scorer="match").before == 0.5
    with pytest.raises(satiety.SatietyError, match="threshold"):
        bench.compare(path, path, scorer="suspicion")
    assert bench.compare(path, path, scorer="suspicion", threshold=7).before == 1.0


def test_a_sequential_test_decides_early() -> None:
    test = bench.Sequential(20)
    for case in range(7):
        assert not test.state.decided
        test.observe(f"c{case}", 0, False, True)
    state = test.state
    assert (state.outcome, state.calls_saved, state.pairs) == ("better", 13, 7)
    with pytest.raises(satiety.SatietyError, match="already observed"):
        test.observe("c0", 0, True, True)


def test_power_is_stated_before_the_run() -> None:
    found = bench.power(40, 5)
    assert found.text == "40 cases x 5 repeats can detect a difference of 9 points (power 80 %)"
    assert found.detectable is not None
    assert found.detectable == pytest.approx(0.08878, abs=1e-5)


def test_a_suite_without_failures_is_saturated() -> None:
    found = bench.saturation([rows(100, 100, 1)] * 3)
    assert found.verdict == "SATURATED"
    assert len(found.always_pass) == 100
    assert found.e_value is not None
    assert found.e_value > 20
    assert bench.saturation([rows(60, 100, 1)] * 3).verdict == "DISCRIMINATES"


def test_files_of_other_tools_are_read(tmp_path: Path) -> None:
    cases = [f"q{number}" for number in range(20)]
    junit = "".join(f'<testcase name="{case}"/>' for case in cases)
    broken = "".join(f'<testcase name="{case}"><failure>no</failure></testcase>' for case in cases)
    (tmp_path / "before.xml").write_text(f"<testsuite name='t'>{junit}</testsuite>")
    (tmp_path / "after.xml").write_text(f"<testsuite name='t'>{broken}</testsuite>")
    assert bench.compare(tmp_path / "before.xml", tmp_path / "after.xml").verdict == "regression"
    results = [{"testIdx": index, "success": index < 10, "score": 1} for index in range(20)]
    promptfoo = {"results": {"timestamp": "2026-08-01T10:00:00Z", "results": results}}
    (tmp_path / "promptfoo.json").write_text(json.dumps(promptfoo))
    assert bench.compare(tmp_path / "promptfoo.json", tmp_path / "promptfoo.json").before == 0.5
    frame = pandas.DataFrame({"which": cases, "ok": [True] * 15 + [False] * 5})
    frame.to_csv(tmp_path / "table.csv", index=False)
    found = bench.compare(tmp_path / "table.csv", tmp_path / "table.csv", columns={"case": "which", "passed": "ok"})
    assert found.before == 0.75
    polars.DataFrame({"case": cases, "passed": [True] * 10 + [False] * 10}).write_parquet(tmp_path / "table.parquet")
    assert bench.compare(tmp_path / "table.parquet", tmp_path / "table.parquet").before == 0.5
    helm = tmp_path / "run"
    helm.mkdir()
    stats = [
        {
            "instance_id": case,
            "train_trial_index": 0,
            "stats": [{"name": {"name": "exact_match", "split": "test"}, "count": 1, "sum": 1, "mean": 1.0}],
        }
        for case in cases
    ]
    (helm / "per_instance_stats.json").write_text(json.dumps(stats))
    assert bench.compare(helm, helm).before == 1.0
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"columns": {"nonsense": "ok"}}, "unknown role"),
        ({"columns": 3}, "must be a dict"),
        ({"score_range": (1,)}, "low, high"),
    ]
    for wrong, message in mistakes:
        with pytest.raises(satiety.SatietyError, match=message):
            bench.compare(tmp_path / "table.csv", tmp_path / "table.csv", **wrong)
    (tmp_path / "notes.json").write_text("{}")
    with pytest.raises(satiety.SatietyError, match="no results of a known tool"):
        bench.compare(tmp_path / "notes.json", tmp_path / "notes.json")
