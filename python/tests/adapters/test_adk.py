from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("google.adk")

from google.adk.agents import LlmAgent, LoopAgent
from google.adk.apps import App
from google.adk.models import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types
from satiety.adk import SatietyPlugin

from scripted import DONE, FINISHED, GAVE_UP, NOTE, REASON, STOPPED, Action, Tools, run_guide, stuck

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from google.adk.agents import BaseAgent
    from google.adk.models.llm_request import LlmRequest


class ScriptedLlm(BaseLlm):
    model: str = "scripted"
    script: Any
    requests: list[list[types.Content]] = []

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.requests.append(list(llm_request.contents))
        action: Action = self.script(len(self.requests))
        if isinstance(action, str):
            part = types.Part(text=action)
        else:
            part = types.Part(function_call=types.FunctionCall(name=action[0], args=action[1]))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def run(script: Callable[[int], Action], *, loop: bool = False) -> tuple[str, Tools, list[types.Content]]:
    tools = Tools()
    llm = ScriptedLlm(script=script, requests=[])
    agent: BaseAgent = LlmAgent(name="worker", model=llm, tools=list(tools.functions()))
    if loop:
        agent = LoopAgent(name="loop", sub_agents=[agent], max_iterations=3)

    async def texts() -> list[str]:
        runner = InMemoryRunner(app=App(name="test", root_agent=agent, plugins=[SatietyPlugin()]))
        session = await runner.session_service.create_session(app_name="test", user_id="user")
        message = types.Content(role="user", parts=[types.Part(text="When is the release?")])
        return [
            part.text
            async for event in runner.run_async(user_id="user", session_id=session.id, new_message=message)
            for part in (event.content.parts if event.content and event.content.parts else [])
            if part.text
        ]

    return asyncio.run(texts())[-1], tools, llm.requests[-1]


def notes(contents: list[types.Content]) -> int:
    return sum(NOTE in (part.text or "") for content in contents for part in content.parts or [])


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize(("script", "most_calls"), STOPPED.values(), ids=STOPPED)
def test_a_loop_is_nudged_and_ended(script: Any, most_calls: int, loop: bool) -> None:
    output, tools, last_request = run(script, loop=loop)
    assert len(tools.calls) <= most_calls
    assert REASON in output
    assert notes(last_request) == 1


@pytest.mark.parametrize("script", FINISHED.values(), ids=FINISHED)
def test_other_agents_reach_their_end(script: Any) -> None:
    output, _, last_request = run(script)
    assert output == DONE
    assert notes(last_request) == 0


@pytest.mark.usefixtures("broken_judge")
def test_a_failure_of_the_judge_does_not_reach_the_agent() -> None:
    assert run(stuck)[0] == GAVE_UP


def test_the_example_of_the_guide_ends_a_loop(capsys: pytest.CaptureFixture[str]) -> None:
    tools = Tools()
    run_guide("Google ADK", model=ScriptedLlm(script=stuck, requests=[]), tools=tools.functions())
    assert len(tools.calls) <= 4
    assert REASON in capsys.readouterr().out
