"""Whether the next unit is still worth it: a step of an agent, a search, a chunk of context, a benchmark run.

Everything computes on this machine, synchronously and without network access; the interpreter lock is released
meanwhile. ``Client`` and ``Memory`` talk to a server or to the ``satiety`` command instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._errors import SatietyError
from ._progress import Evidence, OpenEnd, Progress, Verdict, Waste
from ._satiety import __version__

if TYPE_CHECKING:
    from . import bench, eviction, retrieval, stats
    from ._client import AsyncClient, Client
    from ._command import find_command
    from ._dialogue import Conversation, Report, RoundVerdict, score
    from ._embedder import Embedder
    from ._memory import Memory, MemoryEntry, MemoryHits
    from ._search import SearchGate, SearchVerdict

__all__ = [
    "AsyncClient",
    "Client",
    "Conversation",
    "Embedder",
    "Evidence",
    "Memory",
    "MemoryEntry",
    "MemoryHits",
    "OpenEnd",
    "Progress",
    "Report",
    "RoundVerdict",
    "SatietyError",
    "SearchGate",
    "SearchVerdict",
    "Verdict",
    "Waste",
    "__version__",
    "bench",
    "eviction",
    "find_command",
    "retrieval",
    "score",
    "stats",
]

# Imported on first use, so that `import satiety` stays fast.
_LAZY = {
    "AsyncClient": "_client",
    "Client": "_client",
    "Memory": "_memory",
    "MemoryEntry": "_memory",
    "MemoryHits": "_memory",
    "Conversation": "_dialogue",
    "Embedder": "_embedder",
    "Report": "_dialogue",
    "RoundVerdict": "_dialogue",
    "SearchGate": "_search",
    "SearchVerdict": "_search",
    "bench": "",
    "eviction": "",
    "find_command": "_command",
    "retrieval": "",
    "score": "_dialogue",
    "stats": "",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f".{_LAZY[name] or name}", __name__)
    value: object = getattr(module, name) if _LAZY[name] else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
