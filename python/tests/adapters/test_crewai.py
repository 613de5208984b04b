from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false", "OTEL_SDK_DISABLED": "true"}
pytest.importorskip("crewai")

from crewai import Agent, BaseLLM, Crew, CrewOutput, Task
from crewai.hooks import HookAborted, clear_before_llm_call_hooks, register_before_llm_call_hook
from crewai.tools import tool
from satiety.crewai import SatietyHook

from scripted import DONE, FINISHED, NOTE, REASON, STOPPED, Action, Tools, run_guide, stuck

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class ScriptedLLM(BaseLLM):
    """Answers with native tool calls, or with the text format of CrewAI."""

    script: Any
    native: bool
    requests: list[str] = []

    def call(self, messages: Any, tools: Any = None, *_: Any, **__: Any) -> Any:
        self.requests.append(json.dumps(messages))
        action: Action = self.script(len(self.requests))
        if isinstance(action, str):
            return action if self.native else f"Thought: That is all.\nFinal Answer: {action}"
        name, arguments = action[0], json.dumps(action[1])
        if self.native:
            function = {"name": name, "arguments": arguments}
            return [{"id": f"call_{len(self.requests)}", "type": "function", "function": function}]
        return f"Thought: I need more.\nAction: {name}\nAction Input: {arguments}"

    def supports_function_calling(self) -> bool:
        return self.native


@pytest.fixture(autouse=True)
def hook() -> Iterator[None]:
    registered = SatietyHook()
    register_before_llm_call_hook(registered)
    yield
    clear_before_llm_call_hooks()


def create(script: Callable[[int], Action], *, native: bool = True) -> tuple[Crew, Tools, ScriptedLLM]:
    tools = Tools()
    llm = ScriptedLLM(model="scripted", script=script, native=native, requests=[])
    agent = Agent(
        role="Editor",
        goal="Find the date",
        backstory="An editor.",
        llm=llm,
        tools=[tool(function) for function in tools.functions()],
        cache=False,
        max_iter=50,
    )
    task = Task(description="When is the release?", expected_output="A date", agent=agent)
    return Crew(agents=[agent], tasks=[task], cache=False), tools, llm


def kickoff(crew: Crew) -> str:
    output = crew.kickoff()
    assert isinstance(output, CrewOutput)
    return output.raw


@pytest.mark.parametrize("native", [True, False], ids=["native", "text"])
@pytest.mark.parametrize(("script", "most_calls"), STOPPED.values(), ids=STOPPED)
def test_a_loop_is_nudged_once_and_aborted(script: Any, most_calls: int, native: bool) -> None:
    crew, tools, llm = create(script, native=native)
    with pytest.raises(HookAborted) as aborted:
        crew.kickoff()
    assert REASON in aborted.value.reason
    assert len(tools.calls) <= most_calls
    # With text, CrewAI answers a repeated call itself the second time.
    assert len(llm.requests) <= most_calls + (0 if native else 2)
    assert llm.requests[-1].count(NOTE) == 1


@pytest.mark.parametrize("native", [True, False], ids=["native", "text"])
def test_a_productive_agent_reaches_its_end(native: bool) -> None:
    crew, _, llm = create(FINISHED["productive"], native=native)
    assert kickoff(crew) == DONE
    assert NOTE not in llm.requests[-1]


def test_a_polling_agent_reaches_its_end() -> None:
    crew, _, llm = create(FINISHED["polling"])
    assert kickoff(crew) == DONE
    assert NOTE not in llm.requests[-1]


@pytest.mark.usefixtures("broken_judge")
def test_a_failure_of_the_judge_does_not_reach_the_agent() -> None:
    # Not the stuck agent: CrewAI itself stops a call that is repeated five times.
    crew, _, _ = create(FINISHED["productive"])
    assert kickoff(crew) == DONE


def test_the_example_of_the_guide_ends_a_loop(capsys: pytest.CaptureFixture[str]) -> None:
    tools = Tools()
    llm = ScriptedLLM(model="scripted", script=stuck, native=True, requests=[])
    run_guide("CrewAI", model=llm, tools=[tool(function) for function in tools.functions()])
    assert len(tools.calls) <= 4
    assert REASON in capsys.readouterr().out
