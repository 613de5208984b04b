"""Inspect: early stopping of evaluations, comparison of their logs, and agents that make no progress.

Needs ``inspect-ai``: ``pip install satiety[inspect]``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from inspect_ai.hooks import Hooks, TaskEnd, hooks
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import ChatMessageAssistant
from inspect_ai.scorer import value_to_float
from inspect_ai.util import EarlyStop

from ._watch import Watch, ending, logger, nudging
from .bench import Sequential, compare

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from inspect_ai.agent import AgentContinue, AgentState
    from inspect_ai.dataset import Sample
    from inspect_ai.log import EvalSpec
    from inspect_ai.scorer import SampleScore, Score
    from pydantic import JsonValue

    from .bench import SequentialState

_to_float = value_to_float()

BASELINE = "SATIETY_BASELINE"
"""Environment variable with the path of the log that each finished task is compared with."""


class Satiated:
    """Stops an evaluation as soon as it is clear whether it is better or worse than an earlier one.

    Pass it as ``Task(early_stopping=…)``. Each finished sample is paired with the same sample and epoch of the
    baseline. The test may look after every sample, because its evidence is an e-value: an unchanged candidate is
    declared different with a probability of at most ``alpha``, however often it looks. Samples that are not in the
    baseline run, but do not count.

    Args:
        baseline: Log of the earlier evaluation, or its path (``.eval`` or ``.json``).
        scorer: Name of the scorer that decides; the first one if absent.
        threshold: Least score of a sample that passes.
        alpha: Probability of stopping for a difference that does not exist, between 0 and 1.
        futility_margin: Stop also when a difference in pass rate of this size is excluded in both directions.

    """

    def __init__(
        self,
        baseline: EvalLog | str | Path,
        *,
        scorer: str | None = None,
        threshold: float = 1.0,
        alpha: float = 0.05,
        futility_margin: float | None = None,
    ) -> None:
        self._scorer = scorer
        self._threshold = threshold
        self._alpha = alpha
        self._futility_margin = futility_margin
        Sequential(1, alpha=alpha, futility_margin=futility_margin)  # raises for invalid settings
        rows = results(baseline, scorer=scorer, threshold=threshold)
        self._baseline = {(row["case"], row["repeat"]): row["passed"] for row in rows}
        self._test: Sequential | None = None
        self._failed = False

    async def start_task(self, task: EvalSpec, samples: list[Sample], epochs: int) -> str:  # noqa: ARG002
        """Begin a test for a task."""
        known = {case for case, _ in self._baseline}
        if not any(str(sample.id) in known for sample in samples):
            logger.warning("no sample of the task is in the baseline, so nothing is compared")
        self._test = Sequential(
            max(1, len(samples)), max(1, epochs), alpha=self._alpha, futility_margin=self._futility_margin
        )
        return "satiety"

    async def schedule_sample(self, id: str | int, epoch: int) -> EarlyStop | None:  # noqa: A002
        """Stop a sample if the result is clear already."""
        state = None if self._test is None else self._test.state
        if state is None or state.outcome in ("continue", "exhausted"):
            return None
        return EarlyStop(id=id, epoch=epoch, reason=_reason(state))

    async def complete_sample(self, id: str | int, epoch: int, scores: dict[str, SampleScore]) -> None:  # noqa: A002
        """Add the pair of a finished sample."""
        before = self._baseline.get((str(id), epoch - 1))
        values = {name: sample.score for name, sample in scores.items()}
        try:
            after = _passed(values, self._scorer, self._threshold)
            if self._test is not None and before is not None and after is not None:
                self._test.observe(str(id), epoch - 1, before, after)
        except Exception:  # the evaluation goes on without early stopping
            if not self._failed:
                self._failed = True
                logger.exception("cannot compare sample %s with the baseline", id)

    async def complete_task(self) -> dict[str, JsonValue]:
        """Describe the test for the log."""
        if self._test is None:
            return {}
        state = self._test.state
        return {
            "outcome": state.outcome,
            "reason": _reason(state),
            "pairs": state.pairs,
            "difference": state.difference,
            "e_value": state.e_value,
            "samples_saved": state.calls_saved,
        }


def _reason(state: SequentialState) -> str:
    meaning = {
        "better": "the candidate is better than the baseline",
        "worse": "the candidate is worse than the baseline",
        "no_difference": "a relevant difference from the baseline is excluded",
        "exhausted": "no difference from the baseline was found",
        "continue": "the evaluation ended before the result was clear",
    }
    numbers = f"{state.difference:+.0%} over {state.pairs} samples, e-value {state.e_value:.3g}"
    return f"{meaning[state.outcome]} ({numbers})"


def results(log: EvalLog | str | Path, *, scorer: str | None = None, threshold: float = 1.0) -> list[dict[str, Any]]:
    """Read the results of a log, for ``satiety.bench.compare`` and a DataFrame.

    Returns a row with ``case``, ``repeat`` (from 0) and ``passed`` for each sample and epoch. ``passed`` is ``None`` if
    the sample ended with an error or has no score.

    Args:
        log: Log, or its path (``.eval`` or ``.json``).
        scorer: Name of the scorer that decides; the first one if absent.
        threshold: Least score of a sample that passes.

    """
    if not isinstance(log, EvalLog):
        log = read_eval_log(str(log))
    return list(_rows(log, scorer, threshold))


def _rows(log: EvalLog, scorer: str | None, threshold: float) -> Iterator[dict[str, Any]]:
    for sample in log.samples or ():
        passed = _passed(sample.scores or {}, scorer, threshold) if sample.error is None else None
        yield {"case": str(sample.id), "repeat": sample.epoch - 1, "passed": passed}


def _passed(scores: Mapping[str, Score], scorer: str | None, threshold: float) -> bool | None:
    score = scores.get(scorer) if scorer is not None else next(iter(scores.values()), None)
    return None if score is None else _to_float(score.value) >= threshold


@hooks(name="satiety", description="Compares each finished task with a baseline log")
class SatietyHooks(Hooks):
    """Logs, for each finished task, whether it differs from the log in ``SATIETY_BASELINE`` beyond chance."""

    def enabled(self) -> bool:
        """Whether a baseline is set."""
        return bool(os.environ.get(BASELINE))

    async def on_task_end(self, data: TaskEnd) -> None:
        """Compare the task with the baseline."""
        try:
            log = data.log if data.log.samples else read_eval_log(data.log.location)
            report = compare(results(os.environ[BASELINE]), results(log))
        except Exception:  # the evaluation is not affected
            logger.exception("cannot compare the task with the baseline")
            return
        logger.warning("%s compared with the baseline: %s", data.log.eval.task, report.verdict)


def on_continue(*, submit: bool = True, profile: str | None = None, meaning: bool = False) -> AgentContinue:
    """Create an ``on_continue`` function for ``react()`` that ends or nudges an agent that makes no progress.

    NUDGE sends one message to the agent. STOP and ESCALATE end it, with the reason as the last message.

    Args:
        submit: ``False`` for ``react(submit=False)``, whose agent ends with a turn that calls no tool.
        profile: Thresholds as TOML that differ from the built-in ones.
        meaning: Whether the built-in sentence model also recognizes paraphrased arguments; milliseconds per message.

    """
    watch = Watch(profile=profile, meaning=meaning)

    async def judge(state: AgentState) -> bool | str:
        if not state.output.message.tool_calls:
            return submit
        verdict = watch.judge(message.model_dump(mode="json") for message in state.messages)
        if verdict is None:
            return True
        if verdict.stops:
            state.messages.append(ChatMessageAssistant(content=ending(verdict), model="satiety"))
            return False
        return nudging(verdict)

    return judge
