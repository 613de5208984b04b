"""Run the ``satiety`` command: ``python -m satiety demo``."""

from __future__ import annotations

import os
import subprocess
import sys

from ._command import find_command
from ._errors import SatietyError


def main() -> None:
    """Replace this process with the command, or run it where that is impossible."""
    try:
        command = [str(find_command()), *sys.argv[1:]]
    except SatietyError as error:
        sys.exit(f"error: {error}")
    if sys.platform == "win32":
        sys.exit(subprocess.run(command, check=False).returncode)  # noqa: S603
    os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main()
