"""Memories of agents, on a server or in a local database."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ._client import Client
from ._command import find_command
from ._errors import SatietyError
from ._input import strings, text, whole
from ._table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

Tier = Literal["temporary", "normal", "important", "critical", "constitutional"]
"""How important a memory is."""


@dataclass(frozen=True, slots=True, repr=False)
class MemoryEntry(Table):
    """A memory."""

    id: str
    title: str
    tier: Tier
    kind: str
    folder: str
    content: str | None = None
    """Full text; absent in lists."""


@dataclass(frozen=True, slots=True)
class MemoryHit:
    """A result of a search."""

    id: str
    title: str
    excerpt: str
    score: float
    tier: Tier


@dataclass(frozen=True, slots=True, repr=False)
class MemoryHits(Table):
    """Results of a search, best first."""

    hits: tuple[MemoryHit, ...]
    tokens: int
    """Tokens of all results."""

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, index: int) -> MemoryHit:
        return self.hits[index]

    def __iter__(self) -> Iterator[MemoryHit]:
        return iter(self.hits)

    def _head(self) -> tuple[str, ...]:
        return ("id", "score", "tier", "title", "text")

    def _rows(self) -> list[tuple[object, ...]]:
        return [(hit.id, hit.score, hit.tier, hit.title, hit.excerpt[:60]) for hit in self.hits]


_PAGE = 200
"""Number of memories that are listed at once."""


class _Store(Protocol):
    def save(self, fields: dict[str, Any]) -> dict[str, Any]: ...
    def search(self, fields: dict[str, Any]) -> dict[str, Any]: ...
    def list(self, limit: int, folder: str, page: str | None) -> tuple[list[dict[str, Any]], str | None]: ...
    def get(self, id: str) -> dict[str, Any]: ...  # noqa: A002
    def delete(self, id: str) -> None: ...  # noqa: A002


class Memory:
    """Memories of agents: save, search by words and meaning, delete.

    Without ``client``, the ``satiety`` command of this package keeps them in a local database.

    Args:
        project: Project that the memories belong to.
        client: Server that keeps them.
        database: Path of the local database; the command's default if absent.

    """

    __slots__ = ("_store",)

    def __init__(
        self, project: str | None = None, *, client: Client | None = None, database: str | Path | None = None
    ) -> None:
        name = None if project is None else text(project, "project")
        if client is not None and database is not None:
            raise SatietyError("pass either a client or a database", where="database")
        if client is not None and not isinstance(client, Client):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise SatietyError(f"client must be a Client, not {type(client).__name__}", where="client")
        path = None if database is None else text(str(database), "database")
        self._store: _Store = _CommandStore(name, path) if client is None else _ServerStore(name, client)

    def save(
        self,
        title: str,
        content: str,
        *,
        tier: Tier = "normal",
        kind: str = "note",
        folder: str = "",
        triggers: Iterable[str] = (),
    ) -> MemoryEntry:
        """Save a memory.

        Args:
            title: Summary in one line.
            content: Statement and reasons; Markdown.
            tier: Importance; ``constitutional`` needs a person's confirmation.
            kind: Such as ``note`` or ``decision``.
            folder: Path such as ``store/sqlite``.
            triggers: Phrases that recall the memory when a text contains them.

        """
        fields = {
            "title": text(title, "title"),
            "content": text(content, "content"),
            "tier": text(tier, "tier"),
            "kind": text(kind, "kind"),
            "folder": text(folder, "folder"),
            "triggers": strings(triggers, "triggers"),
        }
        for name in ("title", "content"):
            if not str(fields[name]).strip():
                raise SatietyError(f"{name} must not be empty", where=name)
        return _entry(self._store.save(fields)["memory"])

    def search(self, query: str, *, limit: int | None = None, token_budget: int | None = None) -> MemoryHits:
        """Search by words, meaning and trigger phrases.

        Args:
            query: Query in plain words.
            limit: Largest number of results.
            token_budget: Largest number of tokens of all results.

        """
        fields: dict[str, Any] = {"query": text(query, "query")}
        if not query.strip():
            raise SatietyError("query must not be empty", where="query")
        if limit is not None:
            fields["limit"] = whole(limit, "limit", 1, 200)
        if token_budget is not None:
            fields["token_budget"] = whole(token_budget, "token_budget", 1, 1_000_000)
        found = self._store.search(fields)
        hits = (
            MemoryHit(hit["id"], hit["title"], hit["excerpt"], hit["score"], hit["tier"]) for hit in found["results"]
        )
        return MemoryHits(tuple(hits), found["tokens"])

    def list(self, *, limit: int | None = 50, folder: str = "") -> tuple[MemoryEntry, ...]:
        """List memories.

        Args:
            limit: Largest number of memories; all if absent.
            folder: List only this folder and its subfolders.

        """
        most = None if limit is None else whole(limit, "limit", 1)
        below = text(folder, "folder")
        found: list[MemoryEntry] = []
        page: str | None = None
        while most is None or len(found) < most:
            size = _PAGE if most is None else min(_PAGE, most - len(found))
            memories, page = self._store.list(size, below, page)
            found += map(_entry, memories)
            if page is None:
                break
        return tuple(found)

    def get(self, id: str) -> MemoryEntry:  # noqa: A002
        """Get a memory with its full text."""
        return _entry(self._store.get(text(id, "id")))

    def delete(self, id: str) -> None:  # noqa: A002
        """Delete a memory permanently."""
        self._store.delete(text(id, "id"))


class _ServerStore:
    """Memories on a server."""

    __slots__ = ("_client", "_project")

    def __init__(self, project: str | None, client: Client) -> None:
        self._project = project
        self._client: Any = client

    def _with_project(self, fields: dict[str, Any]) -> dict[str, Any]:
        return fields if self._project is None else {**fields, "project": self._project}

    def save(self, fields: dict[str, Any]) -> dict[str, Any]:
        saved: dict[str, Any] = self._client.save_memory(self._with_project(fields))
        return saved

    def search(self, fields: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self._client.search_memory(self._with_project(fields))
        return found

    def list(self, limit: int, folder: str, page: str | None) -> tuple[list[dict[str, Any]], str | None]:
        found: dict[str, Any] = self._client.list_memories(
            limit=limit, folder=folder or None, cursor=page, project=self._project
        )
        return found["memories"], found.get("next_cursor")

    def get(self, id: str) -> dict[str, Any]:  # noqa: A002
        memory: dict[str, Any] = self._client.get_memory(id, project=self._project)
        return memory

    def delete(self, id: str) -> None:  # noqa: A002
        self._client.delete_memory(id, project=self._project)


class _CommandStore:
    """Memories in a local database, through the command."""

    __slots__ = ("_options",)

    def __init__(self, project: str | None, database: str | None) -> None:
        self._options = ["--format", "json"]
        if database is not None:
            self._options += ["--db", f"sqlite:{database}"]
        if project is not None:
            self._options += ["--project", project]

    def _run(self, *arguments: str, options: Iterable[str] = (), text_in: str | None = None) -> Any:
        action, *values = arguments
        command = [str(find_command()), "memory", action, *self._options, *options, "--", *values]
        try:
            done = subprocess.run(command, input=text_in, capture_output=True, encoding="utf-8", check=False)  # noqa: S603
        except (OSError, ValueError) as error:
            raise SatietyError(f"cannot run the satiety command: {error}", where="command") from None
        if done.returncode != 0:
            raise _failure(done.stderr)
        return json.loads(done.stdout) if done.stdout.strip() else None

    def save(self, fields: dict[str, Any]) -> dict[str, Any]:
        options = ["--tier", fields["tier"], "--kind", fields["kind"], "--folder", fields["folder"]]
        for trigger in fields["triggers"]:
            options += ["--trigger", trigger]
        saved: dict[str, Any] = self._run("save", fields["title"], "-", options=options, text_in=fields["content"])
        return saved

    def search(self, fields: dict[str, Any]) -> dict[str, Any]:
        options: list[str] = []
        if "limit" in fields:
            options += ["--limit", str(fields["limit"])]
        if "token_budget" in fields:
            options += ["--budget", str(fields["token_budget"])]
        found: dict[str, Any] = self._run("search", fields["query"], options=options)
        return found

    def list(self, limit: int, folder: str, page: str | None) -> tuple[list[dict[str, Any]], str | None]:
        options = ["--limit", str(limit)]
        if folder:
            options += ["--folder", folder]
        if page is not None:
            options += ["--after", page]
        found: dict[str, Any] = self._run("list", options=options)
        return found["memories"], None if found["next"] is None else str(found["next"])

    def get(self, id: str) -> dict[str, Any]:  # noqa: A002
        found: dict[str, Any] = self._run("get", id)
        memory: dict[str, Any] = found.get("memory", found)
        return memory

    def delete(self, id: str) -> None:  # noqa: A002
        self._run("delete", id)


def _failure(report: str) -> SatietyError:
    """Convert the error message of the command."""
    lines = [line.strip() for line in report.splitlines() if line.strip()]
    message = next((line.removeprefix("error: ") for line in lines if line.startswith("error:")), "the command failed")
    hint = next((line.removeprefix("hint: ") for line in lines if line.startswith("hint:")), None)
    return SatietyError(message, hint=hint, where="memory")


def _entry(fields: dict[str, Any]) -> MemoryEntry:
    return MemoryEntry(
        id=fields["id"],
        title=fields["title"],
        tier=fields["tier"],
        kind=fields["kind"],
        folder=fields["folder"],
        content=fields.get("content"),
    )
