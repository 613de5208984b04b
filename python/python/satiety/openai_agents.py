"""OpenAI Agents SDK: ends or nudges an agent that makes no progress.

Needs ``openai-agents``: ``pip install satiety[openai-agents]``.
"""

from __future__ import annotations

import inspect
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from agents import AgentHooks, ToolsToFinalOutputResult
from agents.run_config import ModelInputData

from ._watch import Watch, ending, nudging

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from agents import Agent, FunctionToolResult, ModelResponse, RunContextWrapper
    from agents.run_config import CallModelData

    from ._watch import Run

_nudge: ContextVar[str | None] = ContextVar("satiety_nudge", default=None)
"""Sentence for the next model call of the current run."""


class Satiety:
    """Watches the runs of agents.

    ``watch(agent)`` returns a copy of an agent that is stopped when it repeats itself: after STOP or ESCALATE, the
    final output is the reason. ``input_filter``, as ``RunConfig(call_model_input_filter=…)``, adds the sentence of a
    NUDGE to the next model call.

    Args:
        profile: Thresholds as TOML that differ from the built-in ones.
        meaning: Whether the built-in sentence model also recognizes paraphrased arguments; milliseconds per message.

    """

    def __init__(self, *, profile: str | None = None, meaning: bool = False) -> None:
        self._watch = Watch(profile=profile, meaning=meaning)
        self._runs: WeakKeyDictionary[RunContextWrapper[Any], Run] = WeakKeyDictionary()

    def watch(self, agent: Agent[Any]) -> Agent[Any]:
        """Copy an agent, with hooks and a ``tool_use_behavior`` that keep the ones it has."""
        return agent.clone(
            hooks=_Hooks(self, agent.hooks),
            tool_use_behavior=_Behavior(self, agent.tool_use_behavior),
        )

    def input_filter(self, data: CallModelData[Any]) -> ModelInputData:
        """Add the sentence of a NUDGE to the input of a model call."""
        nudge = _nudge.get()
        if nudge is None:
            return data.model_data
        _nudge.set(None)
        return ModelInputData(
            input=[*data.model_data.input, {"role": "user", "content": nudge}],
            instructions=data.model_data.instructions,
        )

    def observe_response(self, context: RunContextWrapper[Any], response: ModelResponse) -> None:
        """Take the calls of a model's response."""
        self._run(context).observe(item.model_dump(exclude_unset=True) for item in response.output)

    def observe_results(self, context: RunContextWrapper[Any], results: list[FunctionToolResult]) -> str | None:
        """Take the results of the calls; the text that ends the run, if it should end."""
        items = (outcome.run_item.raw_item for outcome in results if outcome.run_item is not None)
        verdict = self._run(context).observe(items)
        if verdict is None:
            return None
        if verdict.stops:
            return ending(verdict)
        _nudge.set(nudging(verdict))
        return None

    def _run(self, context: RunContextWrapper[Any]) -> Run:
        run = self._runs.get(context)
        if run is None:
            run = self._runs[context] = self._watch.start()
        return run


class _Behavior:
    """A ``tool_use_behavior`` that asks the judge first, and then the agent's own behavior."""

    def __init__(self, satiety: Satiety, own: Any) -> None:
        self._satiety = satiety
        self._own = own

    async def __call__(
        self, context: RunContextWrapper[Any], results: list[FunctionToolResult]
    ) -> ToolsToFinalOutputResult:
        reason = self._satiety.observe_results(context, results)
        final = await self._own_decision(context, results)
        if reason is not None and not final.is_final_output:
            return ToolsToFinalOutputResult(is_final_output=True, final_output=reason)
        return final

    async def _own_decision(
        self, context: RunContextWrapper[Any], results: list[FunctionToolResult]
    ) -> ToolsToFinalOutputResult:
        own = self._own
        if callable(own):
            decision: ToolsToFinalOutputResult | Awaitable[ToolsToFinalOutputResult] = own(context, results)
            return await decision if inspect.isawaitable(decision) else decision
        names = own.get("stop_at_tool_names", []) if isinstance(own, dict) else None
        for outcome in results:
            if own == "stop_on_first_tool" or (names is not None and outcome.tool.name in names):
                return ToolsToFinalOutputResult(is_final_output=True, final_output=outcome.output)
        return ToolsToFinalOutputResult(is_final_output=False)


class _Hooks(AgentHooks[Any]):
    """Hooks that observe the responses of the model and pass every event on to the agent's own hooks."""

    def __init__(self, satiety: Satiety, own: AgentHooks[Any] | None) -> None:
        self._satiety = satiety
        self._own = own if own is not None else AgentHooks()

    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse) -> None:
        self._satiety.observe_response(context, response)
        await self._own.on_llm_end(context, agent, response)

    async def on_llm_start(self, *arguments: Any, **named: Any) -> None:
        await self._own.on_llm_start(*arguments, **named)

    async def on_start(self, *arguments: Any, **named: Any) -> None:
        await self._own.on_start(*arguments, **named)

    async def on_end(self, *arguments: Any, **named: Any) -> None:
        await self._own.on_end(*arguments, **named)

    async def on_handoff(self, *arguments: Any, **named: Any) -> None:
        await self._own.on_handoff(*arguments, **named)

    async def on_tool_start(self, *arguments: Any, **named: Any) -> None:
        await self._own.on_tool_start(*arguments, **named)

    async def on_tool_end(self, *arguments: Any, **named: Any) -> None:
        await self._own.on_tool_end(*arguments, **named)
