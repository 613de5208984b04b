from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("autogen_agentchat")

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import TaskResult, TerminationCondition
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, ModelFamily, ModelInfo, RequestUsage
from satiety.autogen import SatietyTermination

from scripted import DONE, FINISHED, GAVE_UP, REASON, STOPPED, Action, Tools, run_guide, stuck

if TYPE_CHECKING:
    from collections.abc import Callable

USAGE = RequestUsage(prompt_tokens=1, completion_tokens=1)


class ScriptedClient(ChatCompletionClient):
    component_type = "model"
    component_config_schema: Any = None

    def __init__(self, script: Callable[[int], Action]) -> None:
        self.script = script
        self.turn = 0

    async def create(self, *_: Any, **__: Any) -> CreateResult:
        self.turn += 1
        action = self.script(self.turn)
        if isinstance(action, str):
            return CreateResult(finish_reason="stop", content=action, usage=USAGE, cached=False)
        call = FunctionCall(id=f"call_{self.turn}", name=action[0], arguments=json.dumps(action[1]))
        return CreateResult(finish_reason="function_calls", content=[call], usage=USAGE, cached=False)

    def create_stream(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None: ...

    def actual_usage(self) -> RequestUsage:
        return USAGE

    def total_usage(self) -> RequestUsage:
        return USAGE

    def count_tokens(self, *_: Any, **__: Any) -> int:
        return 1

    def remaining_tokens(self, *_: Any, **__: Any) -> int:
        return 1000

    @property
    def capabilities(self) -> Any:
        return self.model_info

    @property
    def model_info(self) -> ModelInfo:
        return ModelInfo(
            vision=False,
            function_calling=True,
            json_output=False,
            family=ModelFamily.UNKNOWN,
            structured_output=False,
        )


def run(
    script: Callable[[int], Action], condition: TerminationCondition | None = None, *, runs: int = 1
) -> tuple[TaskResult, Tools]:
    tools = Tools()
    ends = TextMentionTermination(DONE) | TextMentionTermination(GAVE_UP) | MaxMessageTermination(200)
    client = ScriptedClient(script)
    agent = AssistantAgent("worker", client, tools=list(tools.functions()))
    team = RoundRobinGroupChat([agent], termination_condition=(condition or SatietyTermination()) | ends)

    async def all_runs() -> TaskResult:
        for _ in range(runs):
            client.turn = 0
            tools.calls.clear()
            result = await team.run(task="When is the release?")
        return result

    return asyncio.run(all_runs()), tools


@pytest.mark.parametrize(("script", "most_calls"), STOPPED.values(), ids=STOPPED)
def test_a_loop_is_ended(script: Any, most_calls: int) -> None:
    result, tools = run(script)
    assert len(tools.calls) <= most_calls
    assert REASON in (result.stop_reason or "")


@pytest.mark.parametrize("script", FINISHED.values(), ids=FINISHED)
def test_other_agents_reach_their_end(script: Any) -> None:
    result, _ = run(script)
    assert DONE in result.messages[-1].to_text()


@pytest.mark.usefixtures("broken_judge")
def test_a_failure_of_the_judge_does_not_reach_the_agent() -> None:
    result, _ = run(stuck)
    assert GAVE_UP in result.messages[-1].to_text()


def test_conditions_are_composed_with_and() -> None:
    result, tools = run(stuck, SatietyTermination() & MaxMessageTermination(12))
    assert 4 < len(tools.calls) < 20
    assert REASON in (result.stop_reason or "")


def test_a_team_resets_the_condition_before_each_run() -> None:
    result, tools = run(stuck, runs=2)
    assert len(tools.calls) <= 4
    assert REASON in (result.stop_reason or "")


def test_the_condition_is_a_component() -> None:
    condition = SatietyTermination(meaning=False)
    loaded = TerminationCondition.load_component(condition.dump_component())
    assert isinstance(loaded, SatietyTermination)


def test_the_example_of_the_guide_ends_a_loop(capsys: pytest.CaptureFixture[str]) -> None:
    tools = Tools()
    run_guide("AutoGen", model=ScriptedClient(stuck), tools=tools.functions())
    assert len(tools.calls) <= 4
    assert REASON in capsys.readouterr().out
