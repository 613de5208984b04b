"""LangChain and LangGraph: a middleware that ends or nudges an agent that makes no progress.

Needs ``langchain``: ``pip install satiety[langchain]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from ._watch import Watch, ending, nudging

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage
    from langgraph.runtime import Runtime

    from ._progress import Verdict

# Objects of applications and providers, which no reader needs and JSON may not be able to express.
_LEFT_OUT = {"artifact", "additional_kwargs", "response_metadata"}


class SatietyMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Ends an agent that repeats itself, after one sentence that tells it so.

    Before each model call, the messages of the state are judged. NUDGE adds one message to the conversation. STOP and
    ESCALATE end the run with a message that gives the reason; its ``response_metadata["satiety"]`` is the signal.

    Args:
        profile: Thresholds as TOML that differ from the built-in ones.
        meaning: Whether the built-in sentence model also recognizes paraphrased arguments; milliseconds per message.

    """

    def __init__(self, *, profile: str | None = None, meaning: bool = False) -> None:
        super().__init__()
        self._watch = Watch(profile=profile, meaning=meaning)

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Judge the state, and end or nudge the run."""
        verdict = judge(state["messages"], watch=self._watch)
        if verdict is None:
            return None
        if verdict.stops:
            end = AIMessage(content=ending(verdict), response_metadata={"satiety": verdict.signal})
            return {"jump_to": "end", "messages": [end]}
        return {"messages": [HumanMessage(content=nudging(verdict))]}

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Judge the state, and end or nudge the run."""
        return self.before_model(state, runtime)


def judge(messages: Sequence[BaseMessage], *, watch: Watch | None = None) -> Verdict | None:
    """Judge the messages of a graph's state, for conditional edges of your own.

    Returns a NUDGE, STOP or ESCALATE about the last step; ``None`` if the agent should go on, or if the last message is
    not a tool's result: a new request of the user begins afresh.
    """
    if not messages or not isinstance(messages[-1], ToolMessage):
        return None
    return (watch or Watch()).judge(message.model_dump(exclude=_LEFT_OUT) for message in messages)
