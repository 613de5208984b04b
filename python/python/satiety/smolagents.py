"""smolagents: a step callback that interrupts or nudges an agent that makes no progress.

Needs ``smolagents``: ``pip install satiety[smolagents]``.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from smolagents import AgentError  # type: ignore[import-untyped]

from ._watch import Watch, assistant, call, ending, nudging, result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smolagents import ActionStep, MultiStepAgent

    from ._watch import Run


class SatietyInterruptError(AgentError):  # type: ignore[misc]
    """Reason why Satiety interrupted an agent; the error of the last step in ``agent.memory``."""


class SatietyCallback:
    """Interrupts an agent that repeats itself, after one sentence that tells it so.

    Pass it in ``step_callbacks``. NUDGE adds one sentence to the observations of the step. STOP and ESCALATE call
    ``agent.interrupt()``: the run raises ``AgentError("Agent interrupted.")``, and the error of its last step, which
    smolagents also logs, gives the reason.

    Args:
        profile: Thresholds as TOML that differ from the built-in ones.
        meaning: Whether the built-in sentence model also recognizes paraphrased arguments; milliseconds per step.

    """

    def __init__(self, *, profile: str | None = None, meaning: bool = False) -> None:
        self._watch = Watch(profile=profile, meaning=meaning)
        self._runs: WeakKeyDictionary[MultiStepAgent, Run] = WeakKeyDictionary()

    def __call__(self, step: ActionStep, agent: MultiStepAgent) -> None:
        """Judge a step of the agent."""
        if step.step_number == 1 or agent not in self._runs:
            self._runs[agent] = self._watch.start()
        verdict = self._runs[agent].observe(_to_openai(step, agent))
        if verdict is None or step.is_final_answer:
            return
        if verdict.stops:
            step.error = SatietyInterruptError(ending(verdict), agent.logger)
            agent.interrupt()
        else:
            step.observations = f"{step.observations or ''}\n{nudging(verdict)}".lstrip()


def _to_openai(step: ActionStep, agent: MultiStepAgent) -> Iterator[dict[str, Any]]:
    text = step.model_output if isinstance(step.model_output, str) else ""
    calls = [call(made.id, made.name, made.arguments) for made in step.tool_calls or []]
    if step.code_action is not None:
        # What the code does with the tools says more than the name of the interpreter.
        calls = list(_calls_in_code(step.code_action, agent)) or calls
    yield assistant(text, calls)
    # A step has the observations of all its calls in one text.
    content = _without_headings(step.observations or "") if step.error is None else str(step.error)
    for made in calls:
        yield result(made["id"], content, failed=step.error is not None)


def _calls_in_code(code: str, agent: MultiStepAgent) -> Iterator[dict[str, Any]]:
    """Find the calls of the agent's tools, with their arguments as source text."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return
    names = {*agent.tools, *agent.managed_agents}
    for number, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            arguments = {str(index): ast.unparse(value) for index, value in enumerate(node.args)}
            arguments |= {keyword.arg or "**": ast.unparse(keyword.value) for keyword in node.keywords}
            yield call(f"call_{number}", node.func.id, arguments)


def _without_headings(observations: str) -> str:
    """Observations of code without the lines that every step has."""
    headings = ("Execution logs:", "Last output from code snippet:", "None")
    return "\n".join(line for line in observations.splitlines() if line.strip() not in headings)
