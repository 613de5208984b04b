"""Discussions round by round, and whole logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from . import _satiety
from ._errors import SatietyError
from ._input import strings, text
from ._progress import Kind, OpenEnd, Signal, Verdict, Waste, verdict_from
from ._table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ._svg import Plot

Level = Literal["LOW", "MEDIUM", "HIGH"]


@dataclass(frozen=True, slots=True, repr=False)
class RoundVerdict(Table):
    """Recommendation after a round of a discussion."""

    signal: Signal
    reasons: tuple[str, ...]
    round: int
    novelty: float
    """Share of new claims."""
    novelty_level: Level
    readiness: float
    """Whether there is something to execute, from 0 to 1."""
    readiness_level: Level
    warnings: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """The most important reason in one sentence."""
        return self.reasons[0] if self.reasons else ""

    @property
    def stops(self) -> bool:
        """Whether the discussion should not go on by itself: STOP or ESCALATE."""
        return self.signal in ("STOP", "ESCALATE")

    def _rows(self) -> list[tuple[str, object]]:
        rows: list[tuple[str, object]] = [("signal", self.signal), *(("reason", text) for text in self.reasons)]
        rows += [("round", self.round), ("novelty", self.novelty), ("readiness", self.readiness)]
        rows += [("warning", text) for text in self.warnings]
        return rows


@dataclass(frozen=True, slots=True, repr=False)
class Report(Table):
    """Judgement of a whole log."""

    kind: Kind
    """Whether actions (``work``) or statements (``deliberation``) were judged."""
    signal: Signal
    reasons: tuple[str, ...]
    signals: tuple[Signal, ...]
    """Signal after each step, or after each round of a discussion."""
    first_stop: int | None
    """First step or round (from 1) from which going on does not pay."""
    confidence: float | None
    """Probability that the signal is right; absent for discussions."""
    expected_waste: Waste | None
    wasted_steps: int | None
    """Steps that brought nothing new; absent for discussions."""
    open_ends: tuple[OpenEnd, ...]
    steps: tuple[Verdict, ...]
    """Verdict after each step; empty for discussions."""

    @property
    def reason(self) -> str:
        """The most important reason in one sentence."""
        return self.reasons[0] if self.reasons else ""

    @property
    def stops(self) -> bool:
        """Whether the agent should not go on by itself: STOP or ESCALATE."""
        return self.signal in ("STOP", "ESCALATE")

    def _rows(self) -> list[tuple[str, object]]:
        unit = "round" if self.kind == "deliberation" else "step"
        rows: list[tuple[str, object]] = [("signal", self.signal), ("reason", self.reason)]
        rows += [("kind", self.kind), (f"{unit}s", len(self.signals)), (f"first {unit} to stop", self.first_stop)]
        if self.wasted_steps is not None:
            rows.append(("wasted steps", self.wasted_steps))
        rows += [("open", f"{end.kind}: {end.text}") for end in self.open_ends[:5]]
        return rows

    def plot(self) -> Plot:
        """Draw the signal after each step."""
        from ._svg import signal_plot

        return signal_plot(self.signals, [verdict.level for verdict in self.steps])


class Conversation:
    """Judges a discussion round by round: is anything new still said, and is there something to execute?

    Args:
        profile: Name of a built-in profile, or a profile as TOML.
        meaning: Whether the built-in sentence model recognizes paraphrases. Without it only words are compared.

    """

    __slots__ = ("_judge",)

    def __init__(self, *, profile: str | None = None, meaning: bool = True) -> None:
        self._judge = _satiety.Conversation(None if profile is None else text(profile, "profile"), bool(meaning))

    def observe(
        self,
        claims: Iterable[str] = (),
        *,
        next_actions: Iterable[str] = (),
        open_questions: Iterable[str] = (),
        decisions: Iterable[str] = (),
        agent: str = "agent",
    ) -> RoundVerdict:
        """Add a round and return the recommendation after it.

        Args:
            claims: Statements of the round.
            next_actions: What would be done next.
            open_questions: Questions without an answer.
            decisions: What was decided.
            agent: Who spoke.

        """
        outputs = {
            "claims": strings(claims, "claims"),
            "next_actions": strings(next_actions, "next_actions"),
            "open_questions": strings(open_questions, "open_questions"),
            "decisions": strings(decisions, "decisions"),
        }
        if not any(outputs.values()):
            raise SatietyError("a round needs claims, actions, questions or decisions", where="claims")
        found = self._judge.observe({"agent": text(agent, "agent"), "outputs": outputs})
        novelty, readiness = found["novelty"], found["readiness"]
        return RoundVerdict(
            signal=found["signal"],
            reasons=tuple(found["reasons"]),
            round=found["round"],
            novelty=novelty["novelty_rate"],
            novelty_level=novelty["classification"],
            readiness=readiness["action_readiness"],
            readiness_level=readiness["classification"],
            warnings=tuple(str(warning.get("message", warning)) for warning in found["warnings"]),
        )

    def report(self) -> Report:
        """Judgement of all rounds so far."""
        return _discussion(self._judge.report())


def score(messages: Sequence[Any] | object, *, meaning: bool = True) -> Report:
    """Judge a whole log: what agents did if they called tools, otherwise what they said.

    Args:
        messages: All messages in order: dicts or message objects of OpenAI, Anthropic, LangChain, AutoGen and others.
        meaning: Whether the built-in sentence model recognizes paraphrases.

    """
    found = _satiety.score(messages, bool(meaning))
    if "discussion" in found:
        return _discussion(found["discussion"])
    work = found["work"]
    steps = tuple(map(verdict_from, work["steps"]))
    return Report(
        kind=work["kind"],
        signal=work["signal"],
        reasons=(work["reason"],),
        signals=tuple(work["signal_by_step"]),
        first_stop=work["first_stop_step"],
        confidence=work["confidence"],
        expected_waste=steps[-1].expected_waste if steps else Waste(0.0),
        wasted_steps=work["wasted_steps"],
        open_ends=tuple(OpenEnd(end["kind"], end["text"], end.get("step")) for end in work["open_ends"]),
        steps=steps,
    )


def _discussion(report: dict[str, Any]) -> Report:
    advice = report["stop_recommendation"]
    return Report(
        kind="deliberation",
        signal=advice["signal"],
        reasons=tuple(report["explanation"]["reasons"]) or (advice["rationale"],),
        signals=tuple(entry["signal"] for entry in report["signal_by_round"]),
        first_stop=report["first_stop_round"],
        confidence=None,
        expected_waste=None,
        wasted_steps=None,
        open_ends=(),
        steps=(),
    )
