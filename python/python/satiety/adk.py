"""Google ADK: a plug-in that ends or nudges agents that make no progress.

Needs ``google-adk``: ``pip install satiety[adk]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.genai import types

from ._watch import Watch, ending, nudging

if TYPE_CHECKING:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.models.llm_request import LlmRequest


class SatietyPlugin(BasePlugin):
    """Ends an agent that repeats itself, after one sentence that tells it so.

    Before each model call, the contents of the request are judged. NUDGE adds one content to the request. STOP and
    ESCALATE end the agent's turn: the model is not called, the reason is the response, and ``actions.escalate`` ends an
    enclosing loop.

    Args:
        profile: Thresholds as TOML that differ from the built-in ones.
        meaning: Whether the built-in sentence model also recognizes paraphrased arguments; milliseconds per message.

    """

    def __init__(self, *, profile: str | None = None, meaning: bool = False) -> None:
        super().__init__(name="satiety")
        self._watch = Watch(profile=profile, meaning=meaning)

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Judge the request, and end or nudge the agent."""
        contents = llm_request.contents
        if not contents or not any(part.function_response for part in contents[-1].parts or ()):
            return None
        verdict = self._watch.judge(_as_json(content) for content in contents)
        if verdict is None:
            return None
        if verdict.stops:
            callback_context.actions.escalate = True
            return LlmResponse(content=_text("model", ending(verdict)), custom_metadata={"satiety": verdict.signal})
        contents.append(_text("user", nudging(verdict)))
        return None


def _text(role: str, text: str) -> types.Content:
    return types.Content(role=role, parts=[types.Part(text=text)])


def _as_json(content: types.Content) -> dict[str, Any]:
    return content.model_dump(mode="json", by_alias=True, exclude_none=True)
