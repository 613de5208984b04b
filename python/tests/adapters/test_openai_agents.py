from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("agents")

from agents import (
    Agent,
    AgentHooks,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    ToolsToFinalOutputResult,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from satiety.openai_agents import Satiety

from scripted import DONE, FINISHED, GAVE_UP, NOTE, REASON, STOPPED, Action, Tools, run_guide, stuck

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

set_tracing_disabled(True)


class ScriptedModel(Model):
    def __init__(self, script: Callable[[int], Action]) -> None:
        self.script = script
        self.requests: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        self.requests.append(input)
        turn = len(self.requests)
        action = self.script(turn)
        item: ResponseOutputMessage | ResponseFunctionToolCall
        if isinstance(action, str):
            text = ResponseOutputText(annotations=[], text=action, type="output_text")
            item = ResponseOutputMessage(
                id=f"msg_{turn}", content=[text], role="assistant", status="completed", type="message"
            )
        else:
            item = ResponseFunctionToolCall(
                call_id=f"call_{turn}", name=action[0], arguments=json.dumps(action[1]), type="function_call"
            )
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    async def stream_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        response = await self.get_response(system_instructions, input)
        yield ResponseCompletedEvent(
            type="response.completed",
            sequence_number=0,
            response=Response(
                id="response",
                created_at=0,
                model="scripted",
                object="response",
                output=response.output,
                parallel_tool_calls=False,
                tool_choice="auto",
                tools=[],
            ),
        )


def run(script: Callable[[int], Action], *, stream: bool = False, **options: Any) -> tuple[str, Tools, ScriptedModel]:
    tools = Tools()
    model = ScriptedModel(script)
    satiety = Satiety()
    functions = [function_tool(function) for function in tools.functions()]
    agent = satiety.watch(Agent(name="worker", model=model, tools=list(functions), **options))
    config = RunConfig(call_model_input_filter=satiety.input_filter)

    async def output() -> Any:
        if not stream:
            return (await Runner.run(agent, "When is the release?", run_config=config, max_turns=50)).final_output
        streamed = Runner.run_streamed(agent, "When is the release?", run_config=config, max_turns=50)
        async for _ in streamed.stream_events():
            pass
        return streamed.final_output

    return asyncio.run(output()), tools, model


def notes(request: list[Any]) -> int:
    return sum(NOTE in str(item.get("content")) for item in request)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("script", "most_calls"), STOPPED.values(), ids=STOPPED)
def test_a_loop_is_nudged_once_and_ended(script: Any, most_calls: int, stream: bool) -> None:
    output, tools, model = run(script, stream=stream)
    assert len(tools.calls) <= most_calls
    assert REASON in output
    assert sum(map(notes, model.requests)) == 1


@pytest.mark.parametrize("script", FINISHED.values(), ids=FINISHED)
def test_other_agents_reach_their_end(script: Any) -> None:
    output, _, model = run(script)
    assert output == DONE
    assert sum(map(notes, model.requests)) == 0


@pytest.mark.usefixtures("broken_judge")
def test_a_failure_of_the_judge_does_not_reach_the_agent() -> None:
    assert run(stuck)[0] == GAVE_UP


class CountingHooks(AgentHooks[Any]):
    events: list[str]

    def __init__(self) -> None:
        self.events = []

    async def on_llm_end(self, *_: Any) -> None:
        self.events.append("llm_end")

    async def on_tool_end(self, *_: Any) -> None:
        self.events.append("tool_end")


def test_hooks_and_behavior_of_the_agent_are_kept() -> None:
    hooks = CountingHooks()
    output, tools, _ = run(stuck, hooks=hooks, tool_use_behavior="stop_on_first_tool")
    assert output == "No documents match this query."
    assert hooks.events == ["llm_end", "tool_end"]
    output, tools, _ = run(stuck, tool_use_behavior={"stop_at_tool_names": ["search"]})
    assert len(tools.calls) == 1

    def second(_: Any, results: Any) -> ToolsToFinalOutputResult:
        return ToolsToFinalOutputResult(is_final_output=len(tools_of_run) >= 2, final_output=results[0].output)

    tools_of_run = ["first", "second"]
    output, tools, _ = run(stuck, tool_use_behavior=second)
    assert len(tools.calls) == 1


def test_the_example_of_the_guide_ends_a_loop(capsys: pytest.CaptureFixture[str]) -> None:
    tools = Tools()
    functions = [function_tool(function) for function in tools.functions()]
    run_guide("OpenAI Agents SDK", model=ScriptedModel(stuck), tools=functions)
    assert len(tools.calls) <= 4
    assert REASON in capsys.readouterr().out
