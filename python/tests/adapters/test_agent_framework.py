from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("agent_framework")

from agent_framework import (
    Agent,
    AgentLoopMiddleware,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    apply_compaction,
    tool,
)
from satiety.agent_framework import SatietyCompaction, SatietyContinue, SatietyMiddleware

from scripted import DONE, FINISHED, GAVE_UP, NOTE, REASON, STOPPED, Action, Tools, run_guide, stuck

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence


class ScriptedClient(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """A client that keeps the conversation itself if ``service`` is set, so that requests have only new messages."""

    def __init__(self, script: Callable[[int], Action], *, service: bool = False) -> None:
        super().__init__(function_invocation_configuration={"max_iterations": 50})
        self.script = script
        self.service = service
        self.requests: list[Sequence[Message]] = []

    def _inner_get_response(self, *, messages: Sequence[Message], stream: bool, **_: Any) -> Any:
        self.requests.append(list(messages))
        turn = len(self.requests)
        action = self.script(turn)
        content = (
            Content.from_text(action)
            if isinstance(action, str)
            else Content.from_function_call(f"call_{turn}", action[0], arguments=action[1])
        )
        conversation = "conversation" if self.service else None

        async def response() -> ChatResponse[Any]:
            return ChatResponse(messages=[Message("assistant", [content])], conversation_id=conversation)

        async def updates() -> AsyncIterator[ChatResponseUpdate]:
            yield ChatResponseUpdate(role="assistant", contents=[content], conversation_id=conversation)

        return ResponseStream(updates(), finalizer=ChatResponse.from_updates) if stream else response()


def run(
    script: Callable[[int], Action], *, stream: bool = False, service: bool = False
) -> tuple[str, Tools, ScriptedClient]:
    tools = Tools()
    client = ScriptedClient(script, service=service)
    functions = [tool(function, approval_mode="never_require") for function in tools.functions()]
    agent = Agent(client, tools=functions, middleware=[SatietyMiddleware()])

    async def text() -> str:
        if not stream:
            return (await agent.run("When is the release?")).text
        return "".join([update.text async for update in agent.run("When is the release?", stream=True)])

    return asyncio.run(text()), tools, client


def notes(request: Sequence[Message]) -> int:
    return sum(NOTE in message.text for message in request)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("service", [False, True], ids=["client", "service"])
@pytest.mark.parametrize(("script", "most_calls"), STOPPED.values(), ids=STOPPED)
def test_a_loop_is_nudged_and_ended(script: Any, most_calls: int, stream: bool, service: bool) -> None:
    output, tools, client = run(script, stream=stream, service=service)
    assert len(tools.calls) <= most_calls
    assert REASON in output
    assert sum(map(notes, client.requests)) == 1


@pytest.mark.parametrize("script", FINISHED.values(), ids=FINISHED)
def test_other_agents_reach_their_end(script: Any) -> None:
    output, _, client = run(script)
    assert output == DONE
    assert sum(map(notes, client.requests)) == 0


@pytest.mark.usefixtures("broken_judge")
def test_a_failure_of_the_judge_does_not_reach_the_agent() -> None:
    assert run(stuck)[0] == GAVE_UP


def loop(script: Callable[[int], Action]) -> int:
    """Number of runs of an agent that makes one call in each run and is then started again."""
    tools = Tools()
    client = ScriptedClient(lambda turn: script((turn + 1) // 2) if turn % 2 else f"Run {turn // 2} is over.")
    functions = [tool(function, approval_mode="never_require") for function in tools.functions()]
    middleware = AgentLoopMiddleware(SatietyContinue(), max_iterations=7, inject_progress=False)
    agent = Agent(client, tools=functions, middleware=[middleware])

    async def start() -> None:
        await agent.run("When is the release?")

    asyncio.run(start())
    return len(tools.calls)


def test_a_loop_of_runs_ends_if_they_repeat_each_other() -> None:
    assert loop(stuck) < 7
    assert loop(FINISHED["productive"]) == 7


def test_the_example_of_the_guide_ends_a_loop(capsys: pytest.CaptureFixture[str]) -> None:
    tools = Tools()
    functions = [tool(function, approval_mode="never_require") for function in tools.functions()]
    run_guide("Microsoft Agent Framework", model=ScriptedClient(stuck), tools=functions)
    assert len(tools.calls) <= 4
    assert REASON in capsys.readouterr().out


def conversation(calls: int) -> list[Message]:
    messages = [Message("user", ["Compare the release dates of the parser."])]
    for number in range(calls):
        topic = "release dates of the parser" if number == 1 else f"chapter {number:02} about some roses"
        call = Content.from_function_call(f"call_{number}", "read_file", arguments={"path": f"{number}.txt"})
        result = Content.from_function_result(f"call_{number}", result=f"{topic} " * 80)
        messages += [Message("assistant", [call]), Message("tool", [result])]
    return messages


def test_compaction_keeps_to_the_budget_and_drops_what_is_not_needed() -> None:
    messages = conversation(14)
    budget = sum(len(str(content.result or "")) for message in messages for content in message.contents) // 4
    kept = asyncio.run(apply_compaction(messages, strategy=SatietyCompaction(budget, keep=2)))
    contents = [content for message in kept for content in message.contents]
    ids = {content.call_id for content in contents if content.type == "function_result"}
    assert {"call_1", "call_12", "call_13"} <= ids
    assert len(ids) < 14
    assert {content.call_id for content in contents if content.type == "function_call"} == ids
    assert kept[0].role == "user"
    assert sum(len(str(content.result or content.arguments or "")) for content in contents) / 4 <= 0.8 * budget
    short = conversation(3)
    assert asyncio.run(apply_compaction(short, strategy=SatietyCompaction(budget))) == short


def test_compaction_in_an_agent() -> None:
    tools = Tools()
    client = ScriptedClient(FINISHED["productive"])
    functions = [tool(function, approval_mode="never_require") for function in tools.functions()]
    agent = Agent(client, tools=functions, compaction_strategy=SatietyCompaction(60, keep=1))

    async def text() -> str:
        return (await agent.run("When is the release?")).text

    assert asyncio.run(text()) == DONE
    assert len(client.requests[-1]) < 17
