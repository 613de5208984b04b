"""Examples in the documentation run, and generated pages are up to date."""

import json
import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent.parent
DOCS = PACKAGE.parent / "docs"


def test_the_examples_of_the_guide_run() -> None:
    guide = (DOCS / "guides/python.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    assert len(blocks) >= 4
    code = "\n".join(blocks)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for part in ("ESCALATE", "regression", "better after 7 pairs", "SATURATED", "messages[0].role"):
        assert part in done.stdout


def test_the_notebook_runs_and_has_outputs() -> None:
    notebook = json.loads((PACKAGE / "examples/tour.ipynb").read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in cells)
    assert sum("image/svg+xml" in output.get("data", {}) for cell in cells for output in cell["outputs"]) >= 2
    code = "\n".join("".join(cell["source"]) for cell in cells)
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_the_reference_is_up_to_date() -> None:
    subprocess.run([sys.executable, str(PACKAGE / "generate_reference.py"), "--check"], check=True)
