"""Microsoft Agent Framework: a middleware that ends or nudges an agent that makes no progress, and compaction.

Needs ``agent-framework-core``: ``pip install satiety[agent-framework]``.
"""

from __future__ import annotations

from collections import OrderedDict
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from agent_framework import (
    EXCLUDE_REASON_KEY,
    EXCLUDED_KEY,
    GROUP_ANNOTATION_KEY,
    GROUP_ID_KEY,
    GROUP_KIND_KEY,
    CharacterEstimatorTokenizer,
    ChatMiddleware,
    ChatResponse,
    ChatResponseUpdate,
    Message,
    ResponseStream,
    TokenizerProtocol,
    annotate_message_groups,
    included_messages,
)

from ._evict import Evictor, Part
from ._watch import Watch, as_text, assistant, call, ending, nudging, result, user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence

    from agent_framework import AgentResponse, ChatContext, Content

    from ._watch import Run

MOST_RUNS = 10_000
"""Runs whose calls have no result yet; older ones are forgotten."""


class SatietyMiddleware(ChatMiddleware):
    """Ends an agent that repeats itself, after one sentence that tells it so.

    Each response of the model and the results of its calls are judged, whether the framework or the service keeps the
    conversation. NUDGE adds one message to the next request. STOP and ESCALATE end the run: the model is not called,
    and the response is the reason, with the signal in ``additional_properties["satiety"]``.

    Args:
        profile: Thresholds as TOML that differ from the built-in ones.
        meaning: Whether the built-in sentence model also recognizes paraphrased arguments; milliseconds per message.

    """

    def __init__(self, *, profile: str | None = None, meaning: bool = False) -> None:
        self._watch = Watch(profile=profile, meaning=meaning)
        # A run is found by the ids of its open calls: requests of one run share nothing else.
        self._runs: OrderedDict[str, Run] = OrderedDict()

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Judge the results in a request, and end or nudge the run."""
        results = [
            content
            for message in context.messages
            for content in message.contents
            if content.type == "function_result" and content.call_id in self._runs
        ]
        run = self._runs[results[-1].call_id or ""] if results else self._watch.start()
        for content in results:
            self._runs.pop(content.call_id or "", None)
        verdict = run.observe(map(_result, results))
        if verdict is not None and verdict.stops:
            context.result = _response(ending(verdict), verdict.signal, stream=context.stream)
            return
        if verdict is not None:
            context.messages = [*context.messages, Message("user", [nudging(verdict)])]

        def observe(response: ChatResponse[Any]) -> ChatResponse[Any]:
            self._observe(run, response.messages)
            return response

        if context.stream:
            context.stream_result_hooks.append(observe)
        await call_next()
        if isinstance(context.result, ChatResponse):
            observe(context.result)

    def _observe(self, run: Run, messages: Sequence[Message]) -> None:
        calls = [content for message in messages for content in message.contents if content.type == "function_call"]
        if not calls:
            return
        run.observe(map(_assistant, [messages]))
        for content in calls:
            self._runs[content.call_id or ""] = run
        while len(self._runs) > MOST_RUNS:
            self._runs.popitem(last=False)


class SatietyContinue:
    """Predicate for ``AgentLoopMiddleware``: whether another run of the agent is worth it.

    Returns ``False`` with the reason after STOP and ESCALATE, ``True`` with a sentence as feedback after NUDGE, and
    ``True`` otherwise. Give the loop ``max_iterations`` or a condition of your own for agents that reach their goal.

    Args:
        profile: Thresholds as TOML that differ from the built-in ones.
        meaning: Whether the built-in sentence model also recognizes paraphrased arguments and texts.

    """

    def __init__(self, *, profile: str | None = None, meaning: bool = False) -> None:
        self._watch = Watch(profile=profile, meaning=meaning)
        self._run: ContextVar[Run | None] = ContextVar("satiety_loop", default=None)

    def __call__(self, *, iteration: int, last_result: AgentResponse[Any], **_: object) -> tuple[bool, str | None]:
        """Judge the messages of the run that just ended."""
        run = self._run.get()
        if run is None or iteration <= 1:
            run = self._watch.start()
            self._run.set(run)
        verdict = run.observe(_to_openai(last_result.messages))
        if verdict is None:
            return True, None
        return (False, ending(verdict)) if verdict.stops else (True, nudging(verdict))


class SatietyCompaction:
    """Compaction strategy that excludes the tool calls whose results are least likely to be needed again.

    Groups of a call and its results are ranked by age, size and the words that they share with the last request of the
    user. Messages of the user, the system and the agent stay.

    Args:
        budget: Number of tokens that the conversation may have.
        target: Share of the budget that is left after excluding.
        keep: Number of the latest groups of calls that are never excluded.
        tokenizer: Counts tokens; four characters are one token if absent.

    """

    def __init__(
        self, budget: int, *, target: float = 0.75, keep: int = 3, tokenizer: TokenizerProtocol | None = None
    ) -> None:
        self.tokenizer = tokenizer or CharacterEstimatorTokenizer()
        self._evictor = Evictor(budget, target=target)
        self._keep = keep

    async def __call__(self, messages: list[Message]) -> bool:
        """Exclude groups of messages; returns whether any was excluded."""
        annotate_message_groups(messages, tokenizer=self.tokenizer)
        included = included_messages(messages)
        groups: dict[str, list[Message]] = {}
        for message in included:
            groups.setdefault(message.additional_properties[GROUP_ANNOTATION_KEY][GROUP_ID_KEY], []).append(message)
        calls = [group for group, members in groups.items() if _kind(members[0]) == "tool_call"]
        older = set(calls[: -self._keep] if self._keep else calls)
        requests = [message.text for message in included if message.role == "user"]
        parts = (
            Part(
                id=group,
                content=(content := "\n".join(map(_text, members))),
                tokens=self.tokenizer.count_tokens(content),
                begins_turn=group in calls,
                is_result=group in calls,
                droppable=group in older,
            )
            for group, members in groups.items()
        )
        excluded = self._evictor.choose(parts, requests[-1] if requests else "")
        for group in excluded:
            for message in groups[group]:
                message.additional_properties |= {EXCLUDED_KEY: True, EXCLUDE_REASON_KEY: "satiety"}
        return bool(excluded)


def _kind(message: Message) -> str:
    return str(message.additional_properties[GROUP_ANNOTATION_KEY][GROUP_KIND_KEY])


def _text(message: Message) -> str:
    """Everything that a message adds to the context."""
    parts = [content.text or content.arguments or content.result for content in message.contents]
    return "\n".join(as_text(part) for part in parts if part)


def _response(text: str, signal: str, *, stream: bool) -> Any:
    message = Message("assistant", [text], additional_properties={"satiety": signal})
    if not stream:
        return ChatResponse(messages=[message])

    async def updates() -> AsyncIterator[ChatResponseUpdate]:
        yield ChatResponseUpdate(role="assistant", contents=message.contents)

    return ResponseStream(updates(), finalizer=ChatResponse.from_updates)


def _to_openai(messages: Iterable[Message]) -> Iterator[dict[str, Any]]:
    for message in messages:
        if message.role == "assistant":
            yield _assistant([message])
        elif message.role == "user":
            yield user(message.text)
        yield from (_result(content) for content in message.contents if content.type == "function_result")


def _assistant(messages: Sequence[Message]) -> dict[str, Any]:
    contents = [content for message in messages for content in message.contents]
    return assistant(
        "".join(message.text for message in messages),
        [
            call(content.call_id, content.name or "", content.arguments)
            for content in contents
            if content.type == "function_call"
        ],
    )


def _result(content: Content) -> dict[str, Any]:
    return result(content.call_id, content.result, failed=content.exception is not None or None)
