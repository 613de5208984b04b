"""LangGraph: a store over the memories of Satiety, with search by words and meaning.

Needs ``langgraph``: ``pip install satiety[langchain]``.
"""

from __future__ import annotations

import asyncio
import json
import operator
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)

from ._memory import Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from langgraph.store.base import Op, Result

    from ._memory import MemoryEntry

MOST_HITS = 200
"""Number of results of a search that namespaces and filters select from."""


class SatietyStore(BaseStore):
    """A LangGraph store whose items are memories.

    Namespace and key of an item are the folder of its memory, and its value is the text in JSON. Searches with a query
    rank by words and meaning, and select from the best 200 memories of the project.

    Args:
        memory: Where the memories are, such as ``Memory("my-agent")``.

    """

    supports_ttl = False

    def __init__(self, memory: Memory | None = None) -> None:
        self._memory = memory if memory is not None else Memory()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations in order."""
        return [self._carry_out(operation) for operation in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations in order, in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _carry_out(self, operation: Op) -> Result:
        match operation:
            case GetOp():
                return self._get(operation.namespace, operation.key)
            case PutOp():
                self._put(operation)
                return None
            case SearchOp():
                return self._search(operation)
            case ListNamespacesOp():
                return self._namespaces(operation)
        raise TypeError(f"unknown operation: {operation!r}")

    def _get(self, namespace: tuple[str, ...], key: str) -> Item | None:
        entry = self._find(namespace, key)
        return None if entry is None else _item(self._memory.get(entry.id))

    def _find(self, namespace: tuple[str, ...], key: str) -> MemoryEntry | None:
        folder = _folder((*namespace, key))
        return next((entry for entry in self._entries(folder) if entry.folder == folder), None)

    def _entries(self, folder: str) -> list[MemoryEntry]:
        """Memories of this store in a folder; the project may have others."""
        return [entry for entry in self._memory.list(limit=None, folder=folder) if entry.kind == _KIND]

    def _put(self, operation: PutOp) -> None:
        known = self._find(operation.namespace, operation.key)
        if operation.value is not None:
            now = datetime.now(timezone.utc)
            created = now if known is None else _item(self._memory.get(known.id)).created_at
            stored = {"value": operation.value, "created_at": created.isoformat(), "updated_at": now.isoformat()}
            title = _title(operation.value) or operation.key
            text = json.dumps(stored, ensure_ascii=False)
            self._memory.save(title, text, kind=_KIND, folder=_folder((*operation.namespace, operation.key)))
        if known is not None:
            self._memory.delete(known.id)

    def _search(self, operation: SearchOp) -> list[SearchItem]:
        prefix = operation.namespace_prefix
        entries = [entry.id for entry in self._entries(_folder(prefix))]
        ranked: dict[str, float | None] = dict.fromkeys(entries)
        if operation.query:
            hits = self._memory.search(operation.query, limit=MOST_HITS)
            ranked = {hit.id: hit.score for hit in hits if hit.id in ranked}
        end = operation.offset + operation.limit
        found: list[SearchItem] = []
        for id_, score in ranked.items():
            if len(found) == end:
                break
            item = _item(self._memory.get(id_))
            if all(_matches(item.value.get(name), wanted) for name, wanted in (operation.filter or {}).items()):
                times = {"created_at": item.created_at, "updated_at": item.updated_at}
                found.append(SearchItem(item.namespace, item.key, item.value, score=score, **times))
        return found[operation.offset :]

    def _namespaces(self, operation: ListNamespacesOp) -> list[tuple[str, ...]]:
        names = {_labels(entry.folder)[:-1] for entry in self._entries("")}
        conditions = operation.match_conditions or ()
        names = {name for name in names if all(_is_at(condition, name) for condition in conditions)}
        ordered = sorted({name[: operation.max_depth] for name in names})
        return ordered[operation.offset : operation.offset + operation.limit]


_KIND = "langgraph"
"""Kind of the memories of this store; namespace and key are their folder."""


def _folder(labels: tuple[str, ...]) -> str:
    return "/".join(quote(label, safe="") for label in labels)


def _labels(folder: str) -> tuple[str, ...]:
    return tuple(unquote(label) for label in folder.split("/"))


def _item(entry: MemoryEntry) -> Item:
    stored = json.loads(entry.content or "{}")
    *namespace, key = _labels(entry.folder)
    times = {name: datetime.fromisoformat(stored[name]) for name in ("created_at", "updated_at")}
    return Item(value=stored["value"], key=key, namespace=tuple(namespace), **times)


def _title(value: Mapping[str, Any]) -> str:
    """Beginning of the first text of a value: titles count more than other words in a search."""
    text = next((part.strip() for part in value.values() if isinstance(part, str) and part.strip()), "")
    return text[:120]


def _matches(value: Any, wanted: Any) -> bool:
    """Whether a value passes a filter of LangGraph: equality, or operators such as ``{"$gte": 3}``."""
    if not isinstance(wanted, dict) or not any(str(name).startswith("$") for name in wanted):
        return bool(value == wanted)
    return all(_OPERATORS[name](value, operand) for name, operand in wanted.items())


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def _is_at(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    """Whether a namespace begins or ends with the path of a condition, in which ``*`` stands for any label."""
    path = condition.path
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
