"""Agents as scripts: what a model answers in each turn, and the tools that it calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

TURNS = 20
"""Turns after which an agent that nothing stops gives up."""

WORK = 8
"""Calls of an agent that reaches its goal."""

DONE = "All of it is done."
GAVE_UP = "Nothing stopped this agent."
REASON = "by Satiety after step"
NOTE = "Note from Satiety"


@dataclass
class Tools:
    """Tools that count how often they are called."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def functions(self) -> list[Callable[..., str]]:
        """The tools as plain functions with annotations, as frameworks inspect them."""

        def search(query: str) -> str:
            """Search the documents.

            Args:
                query: Words to search for.
            """
            self.calls.append(("search", {"query": query}))
            return "No documents match this query."

        def job_status(job: int) -> str:
            """Report how far a job is.

            Args:
                job: Number of the job.
            """
            self.calls.append(("job_status", {"job": job}))
            return f"{len(self.calls)} of {WORK} parts are ready."

        def read_file(path: str) -> str:
            """Read a file.

            Args:
                path: Path of the file.
            """
            self.calls.append(("read_file", {"path": path}))
            return f"def part_{len(self.calls)}(): return {len(self.calls)}"

        return [search, job_status, read_file]


Action = tuple[str, dict[str, Any]] | str
"""A call with its arguments, or the final answer."""


def stuck(turn: int) -> Action:
    """One call again and again."""
    return ("search", {"query": "release date"}) if turn <= TURNS else GAVE_UP


def stagnant(turn: int) -> Action:
    """Other arguments, the same result."""
    words = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon"
    return ("search", {"query": f"{words.split()[turn - 1]} release"}) if turn <= TURNS else GAVE_UP


def polling(turn: int) -> Action:
    """One call again and again, with other results."""
    return ("job_status", {"job": 7}) if turn <= WORK else DONE


def productive(turn: int) -> Action:
    """Other arguments, other results."""
    return ("read_file", {"path": f"src/part_{turn}.py"}) if turn <= WORK else DONE


STOPPED = {"stuck": (stuck, 4), "stagnant": (stagnant, 5)}
"""Agents that are stopped, with the number of calls they may make."""

FINISHED = {"polling": polling, "productive": productive}
"""Agents that reach their end."""


def run_guide(framework: str, *, number: int = 0, **names: object) -> dict[str, object]:
    """Run an example of the guide with a model and tools of a test, and return its variables."""
    exec(compile(guide_example(framework, number=number), "frameworks.md", "exec"), names)
    return names


def guide_example(framework: str, *, number: int = 0) -> str:
    """Read an example of a framework from the guide."""
    guide = Path(__file__).parents[3] / "docs" / "guides" / "frameworks.md"
    if not guide.is_file():
        pytest.skip("the guide is not part of this directory")
    section = guide.read_text(encoding="utf-8").split(f"\n## {framework}\n")[1].split("\n## ")[0]
    return section.split("```python\n")[number + 1].split("```")[0]
