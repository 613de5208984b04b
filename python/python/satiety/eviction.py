"""Which items of a context can go? Proposals that the agent may object to."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from . import _satiety
from ._errors import SatietyError
from ._input import real, strings, text, whole
from ._table import Table


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a context."""

    id: str
    zone: str
    kind: str
    tokens: int
    age_turns: int
    uses: int
    pinned: bool
    relevance: float | None
    snippet: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """An item that may be dropped."""

    id: str
    tokens: int
    relevance: float
    """Estimated probability that the item is needed again."""
    age_turns: int
    snippet: str


@dataclass(frozen=True, slots=True)
class Cost:
    """Expected cost and saving of a proposal, in tokens at the price of an uncached input token."""

    provider: str
    prices_as_of: str
    decision: Literal["pays", "required", "below_break_even"]
    """``below_break_even``: dropping costs more than it saves, so that nothing is proposed."""
    remaining_turns: float
    rebilling: float
    """Cost of writing everything behind the first dropped item to the cache again."""
    rereading: float
    """Expected cost of reading dropped items again."""
    saving: float
    net: float
    break_even_turns: float | None
    """Number of further requests from which dropping pays; absent if it never does."""


@dataclass(frozen=True, slots=True, repr=False)
class Proposal(Table):
    """Items that free enough tokens at the least expected loss."""

    candidates: tuple[Candidate, ...]
    need_tokens: int
    tokens: int
    """Tokens of the candidates."""
    missing_tokens: int = 0
    """Tokens that cannot be freed, because items are pinned."""
    cost: Cost | None = None
    """Whether dropping pays; absent without a provider, or if nothing can be dropped."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the candidates."""
        return tuple(candidate.id for candidate in self.candidates)

    def _head(self) -> tuple[str, ...]:
        return ("drop", "tokens", "relevance", "age", "text")

    def _rows(self) -> list[tuple[object, ...]]:
        return [(row.id, row.tokens, row.relevance, row.age_turns, row.snippet) for row in self.candidates]


@dataclass(frozen=True, slots=True, repr=False)
class Resolution(Table):
    """What was dropped."""

    evicted: tuple[str, ...]
    kept: tuple[str, ...]
    """Items that the agent excluded."""
    overruled: tuple[str, ...]
    """Exclusions beyond the quota of 30 % of the proposed tokens."""
    freed_tokens: int
    missing_tokens: int = 0


class Context:
    """The context of an agent, ranked by how likely each item is needed again.

    Args:
        budget: Number of tokens that the context may hold.
        goal: What the agent works on; items that share its words are kept longer.

    """

    __slots__ = ("_budget", "_scope")

    def __init__(self, budget: int, *, goal: str = "") -> None:
        self._budget = whole(budget, "budget", 1)
        self._scope = _satiety.Context()
        if goal:
            self._scope.set_goal(text(goal, "goal"))

    def add(
        self,
        id: str,  # noqa: A002 - the name that callers expect
        content: str | None = None,
        *,
        tokens: int | None = None,
        zone: str = "chronicle",
        kind: str = "message",
        pinned: bool = False,
        references: Iterable[str] = (),
        loss: float = 1.0,
    ) -> None:
        """Add an item in the current turn.

        Args:
            id: Id of the item, unique in this context.
            content: Text of the item; without it only sizes and uses are known.
            tokens: Size in tokens; estimated as a quarter of the characters if absent.
            zone: ``system``, ``chronicle``, ``memory``, ``workspace``, or a name of your own.
            kind: ``message``, ``tool_result``, ``file``, ``fact``, or a name of your own.
            pinned: Whether the item must never be dropped.
            references: Ids of the items that this one depends on.
            loss: Cost of losing the item: 1 if it can be read again, more if it cannot.

        """
        if tokens is None:
            if content is None:
                raise SatietyError("an item needs content or tokens", where="tokens")
            tokens = -(-len(text(content, "content")) // 4)
        item: dict[str, Any] = {
            "ctx_id": text(id, "id"),
            "zone": text(zone, "zone"),
            "kind": text(kind, "kind"),
            "content": None if content is None else text(content, "content"),
            "token_count": whole(tokens, "tokens"),
            "created_turn": self.turn,
            "last_referenced_turn": self.turn,
            "pinned": bool(pinned),
            "references": strings(references, "references"),
            "loss": real(loss, "loss"),
        }
        self._scope.add(item)

    def use(self, *ids: str) -> None:
        """Record that items were used in the current turn."""
        for entry in ids:
            self._scope.touch(text(entry, "id"))

    def pin(self, id: str, pinned: bool = True) -> None:  # noqa: A002
        """Protect an item, or remove the protection."""
        self._scope.pin(text(id, "id"), bool(pinned))

    def remove(self, id: str) -> bool:  # noqa: A002
        """Remove an item; returns whether it was there."""
        return self._scope.remove(text(id, "id"))

    def next_turn(self) -> int:
        """Begin the next turn and return its number."""
        return self._scope.advance()

    def set_goal(self, goal: str) -> None:
        """Set what the agent works on."""
        self._scope.set_goal(text(goal, "goal"))

    def propose(
        self,
        free: int | None = None,
        *,
        provider: str | None = None,
        remaining_turns: float | None = None,
        idle_seconds: int = 0,
        exploration: float = 0.0,
        seed: int = 0,
    ) -> Proposal:
        """Propose which items to drop. An earlier proposal that was not resolved is withdrawn.

        Args:
            free: Number of tokens to free; as many as are above the budget if absent.
            provider: Provider whose prompt-cache prices apply, such as ``anthropic``. With it, items are also
                proposed within the budget if dropping them saves more than it costs.
            remaining_turns: Expected number of further requests; the turns so far, at least 10, if absent.
            idle_seconds: Seconds since the last request; the provider's cache expires.
            exploration: Share of random candidates, from which a scorer can learn.
            seed: Seed of these draws.

        """
        need = None if free is None else whole(free, "free")
        share, start = real(exploration, "exploration"), whole(seed, "seed")
        prices = None
        if provider is not None:
            turns = None if remaining_turns is None else real(remaining_turns, "remaining_turns")
            prices = (text(provider, "provider"), turns, whole(idle_seconds, "idle_seconds"))
        found = self._scope.propose(need, self._budget, _now(), share, start, prices)
        return Proposal(
            candidates=tuple(
                Candidate(
                    id=entry["ctx_id"],
                    tokens=entry["token_count"],
                    relevance=entry["relevance_score"],
                    age_turns=entry["age_turns"],
                    snippet=entry["snippet"],
                )
                for entry in found["candidates"]
            ),
            need_tokens=found["need_tokens"],
            tokens=found["candidate_tokens"],
            missing_tokens=_missing(found),
            cost=_cost(found.get("cost")),
        )

    def resolve(self, exclude: Mapping[str, str | None] | Iterable[str] = ()) -> Resolution:
        """Drop the proposed items, except those that the agent still needs.

        Args:
            exclude: Ids to keep, with or without reasons. At most 30 % of the proposed tokens can be kept.

        """
        ids = exclude if isinstance(exclude, Mapping) else strings(exclude, "exclude")
        reasons: dict[str, str | None] = dict(ids) if isinstance(ids, Mapping) else dict.fromkeys(ids)
        pairs = [
            (text(key, "exclude"), None if reason is None else text(reason, f"exclude[{key}]"))
            for key, reason in reasons.items()
        ]
        found = self._scope.resolve(pairs, _now())
        return Resolution(
            evicted=(*found["evicted"], *(entry["ctx_id"] for entry in found["second_pass"])),
            kept=tuple(entry["ctx_id"] for entry in found["excluded"]),
            overruled=tuple(entry["ctx_id"] for entry in found["overruled"]),
            freed_tokens=found["freed_tokens"],
            missing_tokens=_missing(found),
        )

    @property
    def budget(self) -> int:
        """Number of tokens that the context may hold."""
        return self._budget

    @property
    def tokens(self) -> int:
        """Number of tokens of all items."""
        return self._scope.size()[1]

    @property
    def turn(self) -> int:
        """Number of the current turn, from 0."""
        return self._scope.size()[2]

    @property
    def items(self) -> tuple[Item, ...]:
        """Items, the first to be dropped first; pinned and proposed ones come last."""
        return tuple(Item(**entry) for entry in self._scope.items())

    def __len__(self) -> int:
        return self._scope.size()[0]

    def __repr__(self) -> str:
        return f"Context({len(self)} items, {self.tokens} of {self.budget} tokens, turn {self.turn})"


def _now() -> int:
    return int(time.time() * 1000)


def _cost(found: dict[str, Any] | None) -> Cost | None:
    if found is None:
        return None
    values: dict[str, Any] = {field.name: found.get(field.name) for field in fields(Cost)}
    return Cost(**values)


def _missing(found: dict[str, Any]) -> int:
    shortfall: dict[str, int] | None = found.get("shortfall")
    return shortfall["missing_tokens"] if shortfall else 0
