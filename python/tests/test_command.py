"""The wheel contains the command."""

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
