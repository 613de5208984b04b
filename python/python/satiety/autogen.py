"""AutoGen AgentChat: a termination condition for teams that make no progress.

Needs ``autogen-agentchat``: ``pip install satiety[autogen]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autogen_agentchat.base import TerminatedException, TerminationCondition
from autogen_agentchat.messages import StopMessage
from autogen_core import Component
from pydantic import BaseModel

from ._watch import Watch, ending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autogen_agentchat.messages import BaseAgentEvent, BaseChatMessage


class SatietyTerminationConfig(BaseModel):
    """Serialized form of ``SatietyTermination``."""

    profile: str | None = None
    meaning: bool = False


class SatietyTermination(TerminationCondition, Component[SatietyTerminationConfig]):
    """Terminates a team whose agents repeat themselves; combine it with other conditions by ``|`` and ``&``.

    A condition is asked after each turn of a team, so the calls that an agent makes within one turn
    (``max_tool_iterations``) are judged together. AutoGen has no place for a nudge: only STOP and ESCALATE act.

    Args:
        profile: Thresholds as TOML that differ from the built-in ones.
        meaning: Whether the built-in sentence model also recognizes paraphrased arguments and texts.

    """

    component_config_schema = SatietyTerminationConfig
    component_provider_override = "satiety.autogen.SatietyTermination"

    def __init__(self, *, profile: str | None = None, meaning: bool = False) -> None:
        self._config = SatietyTerminationConfig(profile=profile, meaning=meaning)
        self._watch = Watch(profile=profile, meaning=meaning)
        self._run = self._watch.start()
        self._terminated = False

    @property
    def terminated(self) -> bool:
        """Whether the condition has been met since the last reset."""
        return self._terminated

    async def __call__(self, messages: Sequence[BaseAgentEvent | BaseChatMessage]) -> StopMessage | None:
        """Judge new messages; a message if the team should end."""
        if self._terminated:
            raise TerminatedException("the run was stopped already; reset the condition to use it again")
        verdict = self._run.observe(message.model_dump(mode="json") for message in messages)
        if verdict is None or not verdict.stops:
            return None
        self._terminated = True
        return StopMessage(content=ending(verdict), source="Satiety", metadata={"satiety": verdict.signal})

    async def reset(self) -> None:
        """Forget the run, as teams do before each one."""
        self._run = self._watch.start()
        self._terminated = False

    def _to_config(self) -> SatietyTerminationConfig:
        return self._config

    @classmethod
    def _from_config(cls, config: SatietyTerminationConfig) -> SatietyTermination:
        return cls(profile=config.profile, meaning=config.meaning)
