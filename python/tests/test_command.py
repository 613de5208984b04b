"""The wheel contains the command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import satiety

COMMAND = os.environ.get("SATIETY_TEST_COMMAND")


@pytest.mark.skipif(COMMAND is None, reason="the wheel is not installed")
def test_the_command_is_installed_and_found() -> None:
    assert COMMAND is not None
    assert satiety.find_command() == Path(COMMAND)
    script = subprocess.run([COMMAND, "--version"], capture_output=True, text=True, check=True)
    module = subprocess.run([sys.executable, "-m", "satiety", "--version"], capture_output=True, text=True, check=True)
    assert script.stdout.split()[:2] == ["satiety", satiety.__version__]
    assert module.stdout == script.stdout


def test_a_missing_command_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_file(_: Path) -> bool:
        return False

    monkeypatch.setattr(Path, "is_file", is_file)
    with pytest.raises(satiety.SatietyError, match="cannot find") as error:
        satiety.find_command()
    assert error.value.hint


RUN = {
    "run_id": "run-1",
    "suite_id": "desk",
    "target": "model",
    "started_at": "2026-08-01T10:00:00Z",
    "completed_at": "2026-08-01T10:01:00Z",
    "results": [
        {
            "case_id": "a",
            "repeat": 0,
            "status": "pass",
            "scores": [{"name": "quality", "value": 7.5}],
            "actual_output": "hi",
        },
        {"case_id": "b", "repeat": 0, "status": "timeout", "tokens_in": 3, "token_cost": 3},
    ],
}


@pytest.mark.skipif(COMMAND is None, reason="the wheel is not installed")
def test_an_exported_table_is_read_by_data_frames(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert COMMAND is not None
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    subprocess.run(
        [COMMAND, "bench", "export", "run.json", "out.parquet"], cwd=tmp_path, capture_output=True, check=True
    )
    rows = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert [(row["case_id"], row["status"], row["tokens"], row["score.quality"]) for row in rows] == [
        ("a", "pass", None, 7.5),
        ("b", "timeout", 3, None),
    ]
