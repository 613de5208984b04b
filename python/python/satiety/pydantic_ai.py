"""Pydantic AI: a capability that ends or nudges an agent that makes no progress.

Needs ``pydantic-ai-slim`` or ``pydantic-ai``: ``pip install satiety[pydantic-ai]``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import SkipModelRequest, UserError
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from ._watch import Watch, as_text, assistant, call, ending, nudging, result, user

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic_ai import RunContext
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import ModelRequestContext


class SatietyCapability(AbstractCapability[Any]):
    """Ends an agent that repeats itself, after one sentence that tells it so.

    Before each model request, the messages of the run are judged. NUDGE enqueues one message. STOP and ESCALATE end the
    run: the model is not called, and the response is the reason. An agent with a structured output type cannot return
    a text; there, the run ends with Pydantic AI's error about the output, and the reason is in the log of ``satiety``.

    Args:
        profile: Thresholds as TOML that differ from the built-in ones.
        meaning: Whether the built-in sentence model also recognizes paraphrased arguments; milliseconds per message.

    """

    def __init__(self, *, profile: str | None = None, meaning: bool = False) -> None:
        self._watch = Watch(profile=profile, meaning=meaning)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Judge the messages, and end or nudge the run."""
        messages = request_context.messages
        if messages and _answers_calls(messages[-1]):
            verdict = self._watch.judge(_to_openai(messages))
            if verdict is not None and verdict.stops:
                raise SkipModelRequest(ModelResponse(parts=[TextPart(ending(verdict))], model_name="satiety"))
            if verdict is not None:
                with suppress(UserError):  # a run that takes no further messages goes on without the sentence
                    ctx.enqueue(nudging(verdict))
        return request_context


def _answers_calls(message: ModelMessage) -> bool:
    return isinstance(message, ModelRequest) and any(
        isinstance(part, ToolReturnPart | RetryPromptPart) for part in message.parts
    )


def _to_openai(messages: Sequence[ModelMessage]) -> Iterator[dict[str, Any]]:
    for message in messages:
        if isinstance(message, ModelResponse):
            text = "".join(part.content for part in message.parts if isinstance(part, TextPart))
            calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
            yield assistant(text, [call(part.tool_call_id, part.tool_name, part.args) for part in calls])
            continue
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                failed = part.outcome in ("failed", "retried") or None
                yield result(part.tool_call_id, part.model_response_str(), failed=failed)
            elif isinstance(part, RetryPromptPart) and part.tool_name is not None:
                yield result(part.tool_call_id, part.model_response(), failed=True)
            elif isinstance(part, UserPromptPart):
                yield user(as_text(part.content))
