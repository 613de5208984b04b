"""Is an agent at work still making progress?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

from ._decode import decode
from ._input import text
from ._satiety import Progress as _Judge
from ._table import Table, html_table, text_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._svg import Plot

Signal = Literal["CONTINUE", "NUDGE", "SHIP", "STOP", "ESCALATE"]
"""Recommendation after a step. STOP and ESCALATE ask the agent not to go on by itself."""

Kind = Literal["work", "deliberation", "mixed"]
"""What a run shows: an agent that calls tools, a discussion, or both."""


@dataclass(frozen=True, slots=True)
class Waste:
    """What an agent is expected to waste if it goes on."""

    steps: float
    """Further steps without a new result."""
    tokens: float | None = None
    """Tokens of these steps, if the messages have token counts."""
    cost: float | None = None
    """Cost of these steps in the currency of the log, if the messages have costs."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A finding about one step."""

    kind: str
    """Kind of the finding, such as ``exact_repeat`` or ``same_error``."""
    weight: float
    """Weight in nats: the log-likelihood ratio between a stuck and a working agent."""
    earlier_step: int | None = None
    """Earlier step (from 1) that is repeated."""
    period: int | None = None
    """Length of the cycle in steps, for ``cycle``."""


@dataclass(frozen=True, slots=True)
class OpenEnd:
    """Something that is unfinished at the end of a run."""

    kind: Literal["plan_item", "failed_check", "question"]
    text: str
    step: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Verdict(Table):
    """Recommendation after the messages observed so far."""

    signal: Signal
    reasons: tuple[str, ...]
    """Why, most important first; never empty."""
    nudge: str | None
    """Sentence to add to the agent's context, for NUDGE, STOP and ESCALATE."""
    confidence: float | None
    """Probability that the signal is right, from 0 to 1; absent for discussions."""
    expected_waste: Waste
    step: int
    """Number of judged steps; 0 before the first."""
    level: float = 0.0
    """Level of the CUSUM in nats; 0 for an agent that makes progress."""
    evidence: tuple[Evidence, ...] = ()
    open_ends: tuple[OpenEnd, ...] = ()

    @property
    def reason(self) -> str:
        """The most important reason in one sentence."""
        return self.reasons[0]

    @property
    def stops(self) -> bool:
        """Whether the agent should not go on by itself: STOP or ESCALATE."""
        return self.signal in ("STOP", "ESCALATE")

    def _rows(self) -> list[tuple[str, object]]:
        rows: list[tuple[str, object]] = [
            ("signal", self.signal),
            ("reason", self.reason),
            ("step", self.step),
            ("confidence", self.confidence),
            ("expected waste", f"{self.expected_waste.steps:.1f} steps"),
        ]
        rows[2:2] = [("also", reason) for reason in self.reasons[1:]]
        if self.nudge:
            rows.append(("nudge", self.nudge))
        return rows


class Progress:
    """Judges one run of an agent, message by message.

    Repeated calls, the same error or the same result again, cycles and undone edits raise the level; new results
    lower it. The verdict never ships because of repetition. As long as no tool is called, the messages are judged as
    a discussion: is anything new still said, and is there something to execute?

    Args:
        profile: Thresholds as TOML that differ from the built-in ones.
        meaning: Whether the built-in sentence model also recognizes paraphrased arguments and texts. Without it
            only words are compared, which takes microseconds instead of milliseconds per step.

    """

    __slots__ = ("_judge", "_lock", "_messages", "_verdicts")

    def __init__(self, *, profile: str | None = None, meaning: bool = True) -> None:
        self._judge = _Judge(None if profile is None else text(profile, "profile"), bool(meaning))
        self._lock = Lock()
        self._messages = 0
        self._verdicts: list[Verdict] = []

    def observe(self, new_messages: Sequence[Any] | dict[str, Any] | object) -> Verdict:
        """Judge the steps that new messages complete, and return the verdict after the last one.

        Args:
            new_messages: Messages that were not observed before, in order: dicts or message objects of OpenAI,
                Anthropic, LangChain, AutoGen and others, or steps with ``calls``. A single message is allowed;
                without a message the verdict stays as it is.

        """
        with self._lock:
            seen = self._judge.observe(new_messages)
            self._messages = seen["messages"]
            self._verdicts.extend(map(verdict_from, seen["verdicts"]))
            advice = seen["discussion"]
            if advice is not None and self._verdicts:
                self._verdicts[-1] = replace(
                    self._verdicts[-1],
                    signal=advice["signal"],
                    reasons=(advice["rationale"],),
                    nudge=None,
                    confidence=None,
                )
            return self.verdict

    @property
    def verdict(self) -> Verdict:
        """Verdict after the last judged step."""
        return self._verdicts[-1] if self._verdicts else _NONE

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Verdict after each step."""
        return tuple(self._verdicts)

    @property
    def messages(self) -> int:
        """Number of messages observed so far, so that ``history[progress.messages:]`` is new."""
        return self._messages

    def plot(self) -> Plot:
        """Draw the level and the signal after each step."""
        from ._svg import signal_plot

        return signal_plot([found.signal for found in self._verdicts], [found.level for found in self._verdicts])

    def _rows(self) -> list[tuple[object, ...]]:
        return [(verdict.step, verdict.signal, verdict.level, verdict.reason) for verdict in self._verdicts]

    def __repr__(self) -> str:
        return text_table(_HEAD, self._rows())

    def _repr_html_(self) -> str:
        return html_table(_HEAD, self._rows())


_HEAD = ("step", "signal", "level", "reason")

_NONE = Verdict(
    signal="CONTINUE",
    reasons=("No step is complete yet.",),
    nudge=None,
    confidence=1.0,
    expected_waste=Waste(0.0),
    step=0,
)


def verdict_from(data: dict[str, Any]) -> Verdict:
    """Build a verdict from the extension module's answer."""
    waste = Waste(
        float(data["expected_waste"]),
        data.get("expected_waste_tokens"),
        data.get("expected_waste_cost"),
    )
    evidence = tuple(decode(Evidence, item) for item in data.get("evidence", ()))
    return Verdict(
        signal=data["signal"],
        reasons=(data["reason"], *(item.kind.replace("_", " ") for item in evidence[1:])),
        nudge=data.get("nudge"),
        confidence=float(data["confidence"]),
        expected_waste=waste,
        step=data["step"],
        level=float(data["level"]),
        evidence=evidence,
        open_ends=tuple(decode(OpenEnd, item) for item in data.get("open_ends", ())),
    )
