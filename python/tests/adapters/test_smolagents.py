from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("smolagents")

from satiety.smolagents import SatietyCallback, SatietyInterruptError
from smolagents import (  # type: ignore[import-untyped]
    AgentError,
    CodeAgent,
    LogLevel,
    Model,
    MultiStepAgent,
    ToolCallingAgent,
    tool,
)
from smolagents.models import (  # type: ignore[import-untyped]
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
)

from scripted import DONE, FINISHED, GAVE_UP, NOTE, REASON, STOPPED, Action, Tools, run_guide, stuck

if TYPE_CHECKING:
    from collections.abc import Callable


class ScriptedModel(Model):  # type: ignore[misc]
    """Answers with tool calls, or with code for a ``CodeAgent``."""

    def __init__(self, script: Callable[[int], Action], *, code: bool) -> None:
        super().__init__(model_id="scripted")
        self.script = script
        self.code = code
        self.requests: list[str] = []

    def generate(self, messages: list[ChatMessage], **_: Any) -> ChatMessage:
        self.requests.append("\n".join(str(message.content) for message in messages))
        action = self.script(len(self.requests))
        name, arguments = ("final_answer", {"answer": action}) if isinstance(action, str) else action
        if self.code:
            values = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
            text = f"I will go on.\n<code>\nprint({name}({values}))\n</code>"
            return ChatMessage(role=MessageRole.ASSISTANT, content=text)
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        call = ChatMessageToolCall(id=f"call_{len(self.requests)}", type="function", function=function)
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])


def create(script: Callable[[int], Action], *, code: bool = False) -> tuple[MultiStepAgent, Tools, ScriptedModel]:
    tools = Tools()
    model = ScriptedModel(script, code=code)
    kind = CodeAgent if code else ToolCallingAgent
    agent = kind(
        tools=[tool(function) for function in tools.functions()],
        model=model,
        max_steps=50,
        verbosity_level=LogLevel.OFF,
        step_callbacks=[SatietyCallback()],
    )
    return agent, tools, model


@pytest.mark.parametrize("code", [False, True], ids=["calls", "code"])
@pytest.mark.parametrize(("script", "most_calls"), STOPPED.values(), ids=STOPPED)
def test_a_loop_is_nudged_once_and_interrupted(script: Any, most_calls: int, code: bool) -> None:
    agent, tools, model = create(script, code=code)
    for _ in range(2):  # a second run of the same agent is judged afresh
        tools.calls.clear()
        model.requests.clear()
        with pytest.raises(AgentError, match="interrupted"):
            agent.run("When is the release?")
        assert len(tools.calls) <= most_calls
        error = agent.memory.steps[-1].error
        assert isinstance(error, SatietyInterruptError)
        assert REASON in error.message
        assert model.requests[-1].count(NOTE) == 1


@pytest.mark.parametrize("code", [False, True], ids=["calls", "code"])
@pytest.mark.parametrize("script", FINISHED.values(), ids=FINISHED)
def test_other_agents_reach_their_end(script: Any, code: bool) -> None:
    agent, _, model = create(script, code=code)
    assert agent.run("When is the release?") == DONE
    assert NOTE not in model.requests[-1]


@pytest.mark.usefixtures("broken_judge")
def test_a_failure_of_the_judge_does_not_reach_the_agent() -> None:
    agent, _, _ = create(stuck)
    assert agent.run("When is the release?") == GAVE_UP


def test_the_example_of_the_guide_ends_a_loop(capsys: pytest.CaptureFixture[str]) -> None:
    tools = Tools()
    functions = [tool(function) for function in tools.functions()]
    run_guide("smolagents", model=ScriptedModel(stuck, code=True), tools=functions)
    assert len(tools.calls) <= 4
    assert REASON in capsys.readouterr().out
