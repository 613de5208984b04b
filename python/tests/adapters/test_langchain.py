from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from satiety.langchain import SatietyMiddleware, judge

from scripted import DONE, FINISHED, GAVE_UP, NOTE, REASON, STOPPED, Action, Tools, run_guide, stuck

if TYPE_CHECKING:
    from collections.abc import Callable


class ScriptedModel(BaseChatModel):
    script: Any
    requests: list[list[BaseMessage]] = []

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: Any, **__: Any) -> ScriptedModel:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.requests.append(list(messages))
        action: Action = self.script(len(self.requests))
        if isinstance(action, str):
            message = AIMessage(action)
        else:
            name, args = action
            message = AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"call_{len(self.requests)}"}])
        return ChatResult(generations=[ChatGeneration(message=message)])


def run(
    script: Callable[[int], Action], *, asynchronous: bool = False
) -> tuple[list[BaseMessage], Tools, ScriptedModel]:
    tools = Tools()
    model = ScriptedModel(script=script, requests=[])
    agent = create_agent(model, tools.functions(), middleware=[SatietyMiddleware()])
    state: Any = {"messages": [HumanMessage("When is the release?")]}
    config: Any = {"recursion_limit": 200}
    result = asyncio.run(agent.ainvoke(state, config)) if asynchronous else agent.invoke(state, config)
    return result["messages"], tools, model


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(("script", "most_calls"), STOPPED.values(), ids=STOPPED)
def test_a_loop_is_nudged_once_and_ended(script: Any, most_calls: int, asynchronous: bool) -> None:
    messages, tools, model = run(script, asynchronous=asynchronous)
    assert len(tools.calls) <= most_calls
    assert isinstance(messages[-1], AIMessage)
    assert REASON in messages[-1].text
    assert messages[-1].response_metadata["satiety"] == "STOP"
    assert [NOTE in message.text for message in model.requests[-1]].count(True) == 1


@pytest.mark.parametrize("script", FINISHED.values(), ids=FINISHED)
def test_other_agents_reach_their_end(script: Any) -> None:
    messages, _, model = run(script)
    assert messages[-1].text == DONE
    assert not any(NOTE in message.text for message in model.requests[-1])


@pytest.mark.usefixtures("broken_judge")
def test_a_failure_of_the_judge_does_not_reach_the_agent() -> None:
    messages, _, _ = run(stuck)
    assert messages[-1].text == GAVE_UP


def test_a_new_request_of_the_user_is_answered() -> None:
    messages, tools, _ = run(stuck)
    agent = create_agent(
        ScriptedModel(script=lambda _: "Tomorrow.", requests=[]), tools.functions(), middleware=[SatietyMiddleware()]
    )
    state: Any = {"messages": [*messages, HumanMessage("Then guess.")]}
    answer = agent.invoke(state)["messages"][-1]
    assert answer.text == "Tomorrow."
    assert judge([*messages, HumanMessage("Then guess.")]) is None


def test_an_invalid_profile_is_an_error_of_the_caller() -> None:
    with pytest.raises(ValueError, match="stop"):
        SatietyMiddleware(profile="[decision]\nstop = -1\n")


def test_the_example_of_the_guide_ends_a_loop(capsys: pytest.CaptureFixture[str]) -> None:
    tools = Tools()
    run_guide("LangChain and LangGraph", model=ScriptedModel(script=stuck, requests=[]), tools=tools.functions())
    assert len(tools.calls) <= 4
    assert REASON in capsys.readouterr().out
