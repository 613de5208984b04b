"""CrewAI: a hook that aborts or nudges an agent that makes no progress.

Needs ``crewai``: ``pip install satiety[crewai]``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from crewai.hooks import HookAborted

from ._watch import Watch, assistant, call, ending, nudging, result, user

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from crewai.hooks import LLMCallHookContext

# What CrewAI writes into a message if the model has no native tool calls.
_REACT = re.compile(
    r"^(?P<text>.*?)^Action:[ \t]*(?P<tool>[^\n]*)\n"
    r"Action Input:[ \t]*(?P<input>.*?)\nObservation:[ \t]*(?P<result>.*)\Z",
    re.DOTALL | re.MULTILINE,
)

# CrewAI repeats the description of all tools after every third result.
_REMINDER = "\n\n\nYou ONLY have access to the following tools"


class SatietyHook:
    """Aborts an agent that repeats itself, after one sentence that tells it so.

    Register it with ``crewai.hooks.register_before_llm_call_hook``. NUDGE adds one message to the conversation of the
    agent. STOP and ESCALATE raise CrewAI's ``HookAborted``, whose ``reason`` gives the reason, from ``kickoff``.

    Args:
        profile: Thresholds as TOML that differ from the built-in ones.
        meaning: Whether the built-in sentence model also recognizes paraphrased arguments; milliseconds per message.

    """

    __name__ = "satiety"

    def __init__(self, *, profile: str | None = None, meaning: bool = False) -> None:
        self._watch = Watch(profile=profile, meaning=meaning)

    def __call__(self, context: LLMCallHookContext) -> None:
        """Judge the messages of an agent, and end or nudge it."""
        messages: list[Any] = context.messages
        if context.executor is None or not messages:
            return
        verdict = self._watch.judge(_to_openai(messages))
        if verdict is None:
            return
        if verdict.stops:
            raise HookAborted(ending(verdict), source="satiety")
        note = user(nudging(verdict))
        # A model call is repeated, without a new step, if its answer cannot be parsed.
        if note not in messages[-2:]:
            messages.append(note)


def _to_openai(messages: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for number, message in enumerate(messages):
        content = message.get("content")
        react = _REACT.match(content) if message.get("role") == "assistant" and isinstance(content, str) else None
        if react is None:
            yield message
        else:
            made = call(f"call_{number}", react["tool"].strip(), react["input"].strip())
            yield assistant(react["text"], [made])
            yield result(made["id"], react["result"].partition(_REMINDER)[0].rstrip())
