from __future__ import annotations

import asyncio
import functools
import json
import logging
import random
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("inspect_ai")

from inspect_ai import Task, eval
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, read_eval_log, write_eval_log
from inspect_ai.model import ChatMessage, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, Target, accuracy, match, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import Tool, ToolDef
from satiety import find_command
from satiety.bench import compare
from satiety.inspect import BASELINE, Satiated, on_continue, results

from scripted import DONE, FINISHED, GAVE_UP, NOTE, REASON, STOPPED, Action, Tools, run_guide, stuck

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SAMPLES = 200


@pytest.fixture(autouse=True)
def log_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSPECT_LOG_DIR", str(tmp_path / "logs"))


@solver
def answering(rate: float, seed: int) -> Solver:
    """Answers correctly in a share of the samples."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        correct = random.Random(f"{seed} {state.sample_id} {state.epoch}").random() < rate
        state.output = ModelOutput.from_content("mockllm", "yes" if correct else "no")
        return state

    return solve


def evaluate(rate: float, seed: int, directory: Path, *, samples: int = SAMPLES, **options: Any) -> EvalLog:
    task = Task(
        dataset=[Sample(id=f"s{number}", input="Is it?", target="yes") for number in range(samples)],
        solver=answering(rate, seed),
        scorer=match(),
        **options,
    )
    log = eval(task, model="mockllm/model", log_dir=str(directory), display="none", max_samples=4)[0]
    assert log.status == "success"
    return log


def test_a_worse_candidate_is_stopped_within_twenty_samples(tmp_path: Path) -> None:
    baseline = evaluate(0.9, 1, tmp_path)
    log = evaluate(0.2, 2, tmp_path, early_stopping=Satiated(baseline.location))
    assert log.results is not None
    summary = log.results.early_stopping
    assert summary is not None
    assert summary.manager == "satiety"
    assert summary.metadata["outcome"] == "worse"
    completed = SAMPLES - len(summary.early_stops)
    assert completed <= 20
    assert "worse than the baseline" in (summary.early_stops[0].reason or "")


async def samples_until_stop(seed: int, before: float, after: float) -> int | None:
    """Number of samples that run before a decision, without running a task: the same calls as Inspect makes."""
    draw = random.Random(seed)
    stopping = Satiated(recorded(lambda: draw.random() < before))
    samples = [Sample(id=f"s{number}", input="") for number in range(SAMPLES)]
    await stopping.start_task(None, samples, 1)  # type: ignore[arg-type]
    for number, sample in enumerate(samples):
        if await stopping.schedule_sample(sample.id or "", 1):
            return number
        await stopping.complete_sample(sample.id or "", 1, scores(draw.random() < after))
    return None


def test_rates_of_decisions_over_two_hundred_seeds() -> None:
    async def run(before: float, after: float) -> list[int | None]:
        return [await samples_until_stop(seed, before, after) for seed in range(200)]

    unchanged = [stop for stop in asyncio.run(run(0.8, 0.8)) if stop is not None]
    assert len(unchanged) <= 10
    worse = sorted(stop or SAMPLES for stop in asyncio.run(run(0.9, 0.2)))
    print(f"unchanged: {len(unchanged)} of 200 decided; worse: median {worse[100]}, 95 % within {worse[189]} samples")
    assert worse[189] <= 20


def scores(correct: bool) -> dict[str, Any]:
    from inspect_ai.scorer import SampleScore

    return {"match": SampleScore(score=Score(value="C" if correct else "I"))}


def recorded(outcome: Callable[[], bool]) -> EvalLog:
    from inspect_ai.log import EvalConfig, EvalDataset, EvalSample, EvalSpec

    spec = EvalSpec(created="2026-01-01T00:00:00Z", task="t", dataset=EvalDataset(), model="m", config=EvalConfig())
    samples = [
        EvalSample(id=f"s{number}", epoch=1, input="", target="", scores={"match": Score(value="CI"[not outcome()])})
        for number in range(SAMPLES)
    ]
    return EvalLog(eval=spec, samples=samples)


def test_epochs_and_samples_without_baseline(tmp_path: Path) -> None:
    baseline = evaluate(1.0, 1, tmp_path, samples=3, epochs=2)
    log = evaluate(1.0, 2, tmp_path, samples=5, epochs=2, early_stopping=Satiated(baseline))
    assert log.results is not None
    assert log.results.early_stopping is not None
    assert log.results.early_stopping.metadata["pairs"] == 6
    assert log.results.early_stopping.early_stops == []


def test_logs_are_compared(tmp_path: Path) -> None:
    before, after = evaluate(0.9, 1, tmp_path), evaluate(0.5, 2, tmp_path)
    assert compare(results(before), results(after.location)).verdict == "regression"
    assert compare(results(before), results(before)).verdict == "pass"
    path = tmp_path / "log.json"
    write_eval_log(before, str(path))
    assert results(path) == results(before)
    assert results(before)[0].keys() == {"case", "repeat", "passed"}


def test_the_hook_compares_a_task_with_the_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    baseline = evaluate(0.9, 1, tmp_path)
    monkeypatch.setenv(BASELINE, baseline.location)
    caplog.set_level(logging.INFO, logger="satiety")
    evaluate(0.3, 2, tmp_path)
    assert "compared with the baseline: regression" in caplog.text
    caplog.clear()
    monkeypatch.setenv(BASELINE, str(tmp_path / "missing.eval"))
    evaluate(0.3, 3, tmp_path, samples=2)
    assert "cannot compare the task with the baseline" in caplog.text


def test_invalid_settings_are_an_error_of_the_caller() -> None:
    with pytest.raises(ValueError, match="alpha"):
        Satiated(recorded(lambda: True), alpha=2.0)


# Agents


@scorer(metrics=[accuracy()])
def always() -> Any:
    async def score(state: TaskState, target: Target) -> Score:
        return Score(value="C")

    return score


def as_tool(function: Callable[..., str]) -> Tool:
    @functools.wraps(function)
    async def execute(**arguments: Any) -> str:
        return function(**arguments)

    return ToolDef(execute).as_tool()


def run(script: Callable[[int], Action]) -> tuple[list[ChatMessage], Tools]:
    tools = Tools()
    turns = 0

    def answer(*_: Any) -> ModelOutput:
        nonlocal turns
        turns += 1
        action = script(turns)
        if isinstance(action, str):
            output = ModelOutput.from_content("mockllm", action)
        else:
            output = ModelOutput.for_tool_call("mockllm", action[0], action[1])
        output.usage = ModelUsage()  # or Inspect downloads a tokenizer to count
        return output

    functions = [as_tool(function) for function in tools.functions()]
    agent = react(tools=functions, submit=False, on_continue=on_continue(submit=False))
    task = Task(dataset=[Sample(input="When is the release?")], solver=agent, scorer=always())
    log = eval(task, model=get_model("mockllm/model", custom_outputs=answer), display="none")[0]
    assert log.status == "success", log.error
    assert log.samples
    return log.samples[0].messages, tools


@pytest.mark.parametrize(("script", "most_calls"), STOPPED.values(), ids=STOPPED)
def test_a_loop_is_nudged_once_and_ended(script: Any, most_calls: int) -> None:
    messages, tools = run(script)
    assert len(tools.calls) <= most_calls
    assert REASON in messages[-1].text
    assert sum(NOTE in message.text for message in messages) == 1


@pytest.mark.parametrize("script", FINISHED.values(), ids=FINISHED)
def test_other_agents_reach_their_end(script: Any) -> None:
    messages, _ = run(script)
    assert messages[-1].text == DONE
    assert not any(NOTE in message.text for message in messages)


@pytest.mark.usefixtures("broken_judge")
def test_a_failure_of_the_judge_does_not_reach_the_agent() -> None:
    assert run(stuck)[0][-1].text == GAVE_UP


def test_the_example_of_the_guide_stops_a_worse_candidate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    baseline = evaluate(0.9, 1, tmp_path, samples=60)
    dataset = [Sample(id=f"s{number}", input="Is it?", target="yes") for number in range(60)]
    run_guide("Inspect", dataset=dataset, solver=answering(0.1, 2), baseline=baseline, model="mockllm/model")
    assert "the candidate is worse than the baseline" in capsys.readouterr().out


def test_an_exported_run_is_a_log(tmp_path: Path) -> None:
    result = {
        "case_id": "a",
        "repeat": 0,
        "status": "pass",
        "scores": [{"name": "quality", "value": 7.5}],
        "actual_output": "hi",
    }
    failed = {"case_id": "b", "repeat": 1, "status": "error", "error": "exit code 1"}
    times = {"started_at": "2026-08-01T10:00:00Z", "completed_at": "2026-08-01T10:01:00Z"}
    run = {"run_id": "run-1", "suite_id": "desk", "target": "model", "results": [result, failed], **times}
    (tmp_path / "run.json").write_text(json.dumps(run))
    export = [str(find_command()), "bench", "export", "run.json", "log.eval.json"]
    subprocess.run(export, cwd=tmp_path, capture_output=True, check=True)
    log = read_eval_log(str(tmp_path / "log.eval.json"))
    assert (log.status, log.eval.task, log.eval.model) == ("success", "desk", "model")
    first, second = log.samples or []
    assert first.scores is not None
    assert {name: score.value for name, score in first.scores.items()} == {"passed": 1.0, "quality": 7.5}
    assert first.output.completion == "hi"
    assert (second.id, second.epoch, second.error is not None) == ("b", 2, True)
