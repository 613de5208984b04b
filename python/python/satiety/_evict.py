"""What the eviction adapters share: which parts of a conversation to drop when it exceeds its budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._watch import logger
from .eviction import Context

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a conversation, in order."""

    id: str
    content: str
    tokens: int
    begins_turn: bool
    """Whether a turn of the agent begins with this part."""
    is_result: bool
    """Whether this is a result of a tool, which can be had again."""
    droppable: bool


class Evictor:
    """Chooses parts to drop, and keeps the errors of Satiety away from the host.

    Args:
        budget: Number of tokens that the conversation may have.
        target: Share of the budget that is left after dropping. Below 1, parts are dropped seldom and several at once,
            because each drop invalidates the prompt cache behind it.

    """

    def __init__(self, budget: int, *, target: float = 0.75) -> None:
        if not 0.0 < target <= 1.0:
            raise ValueError(f"target must be above 0 and at most 1, not {target}")
        Context(budget)  # raises for an invalid budget
        self._budget = budget
        self._target = target
        self._failed = False

    def choose(self, parts: Iterable[Part], goal: str) -> frozenset[str]:
        """Return the ids of the parts to drop; none if the conversation fits."""
        try:
            return self._choose(list(parts), goal)
        except Exception:  # the host must not notice
            if not self._failed:
                self._failed = True
                logger.exception("cannot choose what to drop from the context, which stays as it is")
            return frozenset()

    def _choose(self, parts: list[Part], goal: str) -> frozenset[str]:
        total = sum(part.tokens for part in parts)
        if total <= self._budget:
            return frozenset()
        context = Context(self._budget, goal=goal)
        for part in parts:
            if part.begins_turn:
                context.next_turn()
            # A result that repeats the request is not redundant, so the request is the goal and not an item.
            if part.is_result:
                context.add(part.id, part.content, tokens=part.tokens, kind="tool_result", pinned=not part.droppable)
        context.propose(total - int(self._target * self._budget))
        return frozenset(context.resolve().evicted)
