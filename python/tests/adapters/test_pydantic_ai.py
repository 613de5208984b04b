from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent, ModelRetry, UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from satiety.pydantic_ai import SatietyCapability

from scripted import DONE, FINISHED, GAVE_UP, NOTE, REASON, STOPPED, Action, Tools, run_guide, stuck

if TYPE_CHECKING:
    from collections.abc import Callable


def scripted_model(script: Callable[[int], Action], requests: list[list[ModelMessage]]) -> FunctionModel:
    def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        requests.append(list(messages))
        action = script(len(requests))
        if isinstance(action, str):
            return ModelResponse(parts=[TextPart(action)])
        return ModelResponse(parts=[ToolCallPart(action[0], action[1], tool_call_id=f"call_{len(requests)}")])

    return FunctionModel(model)


def run(script: Callable[[int], Action], tools: Tools) -> tuple[str, list[ModelMessage]]:
    requests: list[list[ModelMessage]] = []
    model = scripted_model(script, requests)
    agent = Agent(model, tools=tools.functions(), capabilities=[SatietyCapability()])
    return agent.run_sync("When is the release?").output, requests[-1]


def notes(messages: list[ModelMessage]) -> int:
    parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    return sum(NOTE in str(part) for part in parts)


@pytest.mark.parametrize(("script", "most_calls"), STOPPED.values(), ids=STOPPED)
def test_a_loop_is_nudged_once_and_ended(script: Any, most_calls: int) -> None:
    tools = Tools()
    output, last_request = run(script, tools)
    assert len(tools.calls) <= most_calls
    assert REASON in output
    assert notes(last_request) == 1


@pytest.mark.parametrize("script", FINISHED.values(), ids=FINISHED)
def test_other_agents_reach_their_end(script: Any) -> None:
    output, last_request = run(script, Tools())
    assert output == DONE
    assert notes(last_request) == 0


@pytest.mark.usefixtures("broken_judge")
def test_a_failure_of_the_judge_does_not_reach_the_agent() -> None:
    assert run(stuck, Tools())[0] == GAVE_UP


def test_an_agent_with_a_structured_output_ends_with_an_error() -> None:
    tools = Tools()
    model = scripted_model(stuck, [])
    agent = Agent(model, output_type=int, tools=tools.functions(), capabilities=[SatietyCapability()])
    with pytest.raises(UnexpectedModelBehavior):
        agent.run_sync("When is the release?")
    assert len(tools.calls) <= 6


def test_a_tool_that_asks_for_a_retry_fails() -> None:
    turns = 0

    def model(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
        nonlocal turns
        turns += 1
        return ModelResponse(parts=[ToolCallPart("deploy", {"target": "staging"}, tool_call_id=f"call_{turns}")])

    agent = Agent(FunctionModel(model), capabilities=[SatietyCapability()])

    @agent.tool_plain(retries=50)
    def deploy(target: str) -> str:
        raise ModelRetry(f"error: cannot reach {target}")

    assert "Escalated by Satiety" in agent.run_sync("Deploy it.").output
    assert turns <= 4


def test_the_example_of_the_guide_ends_a_loop(capsys: pytest.CaptureFixture[str]) -> None:
    tools = Tools()
    run_guide("Pydantic AI", model=scripted_model(stuck, []), tools=tools.functions())
    assert len(tools.calls) <= 4
    assert REASON in capsys.readouterr().out
