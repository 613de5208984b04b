from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import ContextEditingMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.outputs import ChatGeneration, ChatResult
from satiety.langchain import SatietyEdit, SatietyMiddleware, judge

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


def conversation(results: int) -> list[Any]:
    """A long conversation: the result about the release is old, but the request is about it."""
    messages: list[Any] = [HumanMessage("Compare the release dates of the parser.")]
    for number in range(results):
        topic = "release dates of the parser" if number == 1 else f"chapter {number:02} about some roses"
        call = {"name": "read_file", "args": {"path": f"{number}.txt"}, "id": f"call_{number}"}
        messages += [AIMessage("", tool_calls=[call]), ToolMessage(f"{topic} " * 80, tool_call_id=f"call_{number}")]
    return messages


def test_eviction_keeps_to_the_budget_and_drops_what_is_not_needed() -> None:
    messages = conversation(14)
    budget = count_tokens_approximately(messages) - 100
    edit = SatietyEdit(budget, keep=2)
    edit.apply(messages, count_tokens=count_tokens_approximately)
    assert count_tokens_approximately(messages) <= 0.8 * budget
    results = [message for message in messages if isinstance(message, ToolMessage)]
    kept = {message.tool_call_id for message in results if "dropped" not in message.text}
    assert {"call_1", "call_12", "call_13"} <= kept
    assert len(messages) == 29, "calls and results stay paired"
    # What was dropped stays dropped, and nothing else is, while the conversation fits.
    again = conversation(14)
    edit.apply(again, count_tokens=count_tokens_approximately)
    assert [message.text for message in again] == [message.text for message in messages]
    short = conversation(3)
    SatietyEdit(budget).apply(short, count_tokens=count_tokens_approximately)
    assert [message.text for message in short] == [message.text for message in conversation(3)]


def test_eviction_in_an_agent() -> None:
    tools = Tools()
    model = ScriptedModel(script=FINISHED["productive"], requests=[])
    middleware = ContextEditingMiddleware(edits=[SatietyEdit(200, keep=1)])
    agent = create_agent(model, tools.functions(), middleware=[middleware])
    state: Any = {"messages": [HumanMessage("When is the release?")]}
    assert agent.invoke(state)["messages"][-1].text == DONE
    assert any("dropped to save context" in message.text for message in model.requests[-1])


def test_a_failure_of_eviction_does_not_reach_the_agent(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: Any) -> int:
        raise RuntimeError("cannot count")

    messages = conversation(5)
    edit = SatietyEdit(10)
    for _ in range(2):
        edit.apply(messages, count_tokens=broken)
    assert [message.text for message in messages] == [message.text for message in conversation(5)]
    assert [record.name for record in caplog.records] == ["satiety"]


def test_the_example_of_the_guide_evicts() -> None:
    tools = Tools()
    model = ScriptedModel(script=FINISHED["productive"], requests=[])
    names = run_guide("LangChain and LangGraph", number=1, model=model, tools=tools.functions())
    agent: Any = names["agent"]
    assert agent.invoke({"messages": [HumanMessage("When is the release?")]})["messages"][-1].text == DONE


def test_the_example_of_the_guide_sets_thresholds() -> None:
    run_guide("Thresholds")
