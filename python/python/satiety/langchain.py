"""LangChain and LangGraph: a middleware that ends or nudges an agent that makes no progress, and context eviction.

Needs ``langchain``: ``pip install satiety[langchain]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from ._evict import Evictor, Part
from ._watch import Watch, ending, nudging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from langchain_core.messages import AnyMessage, BaseMessage
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


class SatietyEdit:
    """Drops the tool results that are least likely to be needed again; for ``ContextEditingMiddleware(edits=[…])``.

    Results are ranked by age, size and the words that they share with the last request of the user. A dropped result is
    replaced by a placeholder, and stays dropped in later calls, so that the beginning of the prompt does not change.

    Args:
        budget: Number of tokens that the conversation may have.
        target: Share of the budget that is left after dropping.
        keep: Number of the latest results that are never dropped.

    """

    def __init__(self, budget: int, *, target: float = 0.75, keep: int = 3) -> None:
        self._evictor = Evictor(budget, target=target)
        self._keep = keep
        self._dropped: set[str] = set()

    def apply(self, messages: list[AnyMessage], *, count_tokens: Callable[[Sequence[BaseMessage]], int]) -> None:
        """Replace dropped results in place."""
        results = [index for index, message in enumerate(messages) if isinstance(message, ToolMessage)]
        older = set(results[: -self._keep] if self._keep else results)
        for index in older:
            self._replace(messages, index, self._dropped)
        requests = [message.text for message in messages if isinstance(message, HumanMessage)]
        dropped = self._evictor.choose(_parts(messages, older, count_tokens), requests[-1] if requests else "")
        for index in older:
            self._replace(messages, index, dropped)
        self._dropped |= dropped

    @staticmethod
    def _replace(messages: list[AnyMessage], index: int, dropped: frozenset[str] | set[str]) -> None:
        message = messages[index]
        if isinstance(message, ToolMessage) and message.tool_call_id in dropped and message.content != _PLACEHOLDER:
            messages[index] = message.model_copy(update={"content": _PLACEHOLDER, "artifact": None})


_PLACEHOLDER = "[dropped to save context; call the tool again if you need the result]"


def _parts(
    messages: Sequence[BaseMessage], older: set[int], count_tokens: Callable[[Sequence[BaseMessage]], int]
) -> Iterator[Part]:
    for index, message in enumerate(messages):
        yield Part(
            id=message.tool_call_id if isinstance(message, ToolMessage) else f"message {index}",
            content=message.text,
            tokens=count_tokens([message]),
            begins_turn=isinstance(message, AIMessage),
            is_result=isinstance(message, ToolMessage),
            droppable=index in older and message.content != _PLACEHOLDER,
        )
