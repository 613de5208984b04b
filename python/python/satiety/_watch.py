"""What all framework adapters share: a judge that never raises, sentences, and messages.

An adapter sits inside somebody else's agent. If Satiety itself fails, the failure is logged once and the agent goes on
as if the adapter were absent.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from ._progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._progress import Verdict

logger = logging.getLogger("satiety")


class Watch:
    """Creates judges and keeps the errors of Satiety away from the host.

    Args:
        profile: Thresholds as TOML that differ from the built-in ones. An invalid profile raises here, because it is an
            error of the caller.
        meaning: Whether the built-in sentence model also recognizes paraphrased arguments.

    """

    def __init__(self, *, profile: str | None = None, meaning: bool = False) -> None:
        self._profile = profile
        self._meaning = meaning
        self._failed = False
        Progress(profile=profile, meaning=False)

    def start(self) -> Run:
        """Begin to judge one run, message by message."""
        return Run(self)

    def judge(self, history: Iterable[Any]) -> Verdict | None:
        """Judge a complete history; ``None`` if it cannot be judged or nothing has to be done."""
        return self.start().observe(history)

    def progress(self) -> Progress:
        """Create the judge of one run."""
        return Progress(profile=self._profile, meaning=self._meaning)

    def report_failure(self) -> None:
        """Log the current exception, the first time only."""
        if not self._failed:
            self._failed = True
            logger.exception("cannot judge the progress of the agent, which goes on without Satiety")


class Run:
    """The judge of one run."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._progress: Progress | None = None
        self._judged = 0

    def observe(self, new_messages: Iterable[Any]) -> Verdict | None:
        """Judge new messages; ``None`` if they complete no step, cannot be judged, or nothing has to be done.

        The result is a NUDGE, STOP or ESCALATE. A nudge is returned only for the step that caused it.
        """
        try:
            if self._progress is None:
                self._progress = self._watch.progress()
            verdict = self._progress.observe(list(new_messages))
        except Exception:  # the host must not notice
            self._watch.report_failure()
            return None
        if verdict.step == self._judged:
            return None
        self._judged = verdict.step
        if verdict.signal not in ("NUDGE", "STOP", "ESCALATE"):
            return None
        logger.log(
            logging.WARNING if verdict.stops else logging.INFO,
            "%s after step %d: %s",
            verdict.signal,
            verdict.step,
            verdict.reason,
        )
        return verdict


def ending(verdict: Verdict) -> str:
    """Text that ends a run, for the person who reads its result."""
    action = "Escalated" if verdict.signal == "ESCALATE" else "Stopped"
    return f"{action} by Satiety after step {verdict.step}. {verdict.reason}"


def nudging(verdict: Verdict) -> str:
    """Sentence for the agent."""
    return f"Note from Satiety: {verdict.nudge or verdict.reason}"


# Messages in the shape of the OpenAI API, for frameworks whose own messages have no reader.


def user(text: str) -> dict[str, Any]:
    """Message of the user."""
    return {"role": "user", "content": text}


def assistant(text: str = "", calls: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
    """Turn of the agent with its calls, each from :func:`call`."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if tool_calls := list(calls):
        message["tool_calls"] = tool_calls
    return message


def call(call_id: str | None, tool: str, arguments: object) -> dict[str, Any]:
    """Call of a tool; arguments are JSON text or any JSON-like object."""
    text = arguments if isinstance(arguments, str) else as_text(arguments if arguments is not None else {})
    return {"id": call_id, "type": "function", "function": {"name": tool, "arguments": text}}


def result(call_id: str | None, content: object, *, failed: bool | None = None) -> dict[str, Any]:
    """Message with the result of a call."""
    message: dict[str, Any] = {"role": "tool", "tool_call_id": call_id, "content": as_text(content)}
    if failed is not None:
        message["is_error"] = failed
    return message


def as_text(value: object) -> str:
    """Text of a value: strings as they are, JSON where possible, else its representation."""
    if isinstance(value, str):
        return value
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    return json.dumps(value, ensure_ascii=False, default=str)
