"""CPU time of a function."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def cpu_seconds(run: Callable[[], object], repeats: int = 3) -> float:
    """Smallest CPU time of all threads over some repeats, in seconds."""
    found: list[float] = []
    for _ in range(repeats):
        before = time.process_time()
        run()
        found.append(time.process_time() - before)
    return min(found)


def report(rows: list[tuple[str, float]]) -> None:
    """Print times, and the ratio of each to the first."""
    name, ours = rows[0]
    print(f"{name:<44}{1000 * ours:>12.2f} ms")
    for name, theirs in rows[1:]:
        print(f"{name:<44}{1000 * theirs:>12.2f} ms  {theirs / ours:>8.1f} times as long")
