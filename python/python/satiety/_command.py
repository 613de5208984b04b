"""The ``satiety`` command that the wheel contains."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

from ._errors import SatietyError


def find_command() -> Path:
    """Return the path of the ``satiety`` command.

    The environment variable ``SATIETY_COMMAND`` takes precedence, then the command that was installed with this
    package, then the first one on the ``PATH``.

    Raises:
        SatietyError: If there is none.

    """
    name = "satiety" + (sysconfig.get_config_var("EXE") or "")
    schemes = [sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user")]
    candidates = [
        os.environ.get("SATIETY_COMMAND"),
        *(str(Path(sysconfig.get_path("scripts", scheme)) / name) for scheme in schemes),
        shutil.which("satiety"),
    ]
    for candidate in candidates:
        if candidate and Path(candidate).is_file():
            return Path(candidate)
    raise SatietyError(
        "cannot find the `satiety` command",
        hint="install the wheel of this package, or set SATIETY_COMMAND to the path of the command",
    )
