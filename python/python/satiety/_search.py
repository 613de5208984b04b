"""Is another search worth it?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from . import _satiety
from ._input import real, sequence, text, whole
from ._table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, repr=False)
class SearchVerdict(Table):
    """Decision after a search."""

    decision: Literal["continue", "stop"]
    reasons: tuple[str, ...]
    accepted: bool
    """Whether the results are worth keeping."""
    novelty: float | None
    """Share of new claims; absent without results."""
    round: int
    summary: str
    """What the results said so far."""
    missed: float | None = None
    """Estimated share of the relevant results of ten searches that is missed; absent without results."""
    missed_bound: float | None = None
    """Share that is exceeded in one of ten loops."""

    @property
    def reason(self) -> str:
        """The reason in one sentence."""
        return self.reasons[0]

    @property
    def stops(self) -> bool:
        """Whether another search is not worth it."""
        return self.decision == "stop"


class SearchGate:
    """Stops a search loop when results bring nothing new.

    Args:
        task: What is searched for; new content that is relevant to it counts more.
        min_rounds: Number of first rounds that are never stopped.
        max_rounds: Largest number of rounds.
        threshold: Share of new content below which results are no longer new.
        epsilon: Probability that a round below the threshold is kept anyway, to keep learning.
        seed: Seed of these draws.
        stop: ``novelty`` stops when results are no longer new, ``missed`` when the estimate of what is missed is at
            most ``max_missed``, ``fixed`` after ``max_rounds``.
        max_missed: Share of the relevant results of ten searches that may be missed.
        meaning: Whether the built-in sentence model recognizes paraphrases.

    """

    __slots__ = ("_gate",)

    def __init__(
        self,
        task: str = "",
        *,
        min_rounds: int = 2,
        max_rounds: int = 5,
        threshold: float = 0.3,
        epsilon: float = 0.15,
        seed: int = 0,
        stop: Literal["novelty", "missed", "fixed"] = "novelty",
        max_missed: float = 0.1,
        meaning: bool = True,
    ) -> None:
        options: dict[str, Any] = {
            "stop": text(stop, "stop"),
            "max_missed": real(max_missed, "max_missed"),
            "min_rounds": whole(min_rounds, "min_rounds", 0, 2**32 - 1),
            "max_rounds": whole(max_rounds, "max_rounds", 1, 2**32 - 1),
            "threshold": {"share": real(threshold, "threshold")},
            "epsilon": real(epsilon, "epsilon"),
            "seed": whole(seed, "seed"),
        }
        self._gate = _satiety.SearchGate(text(task, "task"), options, bool(meaning))

    def observe(self, results: Sequence[Any], *, failed: bool = False) -> SearchVerdict:
        """Add the results of a search and decide whether another one is worth it.

        Args:
            results: Dicts with ``title``, ``url`` and ``snippet`` (or ``content``, ``text``, ``body``), or strings.
                An empty list means that the search found nothing, which is not evidence of saturation.
            failed: Whether the search failed.

        """
        hits = [{"snippet": entry} if isinstance(entry, str) else entry for entry in sequence(results, "results")]
        found = self._gate.observe(hits, bool(failed))
        verdict = found["verdict"]
        missed = verdict.get("missed") or {}
        return SearchVerdict(
            decision=verdict["decision"],
            reasons=(found["words"],),
            accepted=verdict["accepted"],
            novelty=verdict["novelty"],
            round=verdict["round"],
            summary=found["summary"],
            missed=missed.get("share"),
            missed_bound=missed.get("bound"),
        )
