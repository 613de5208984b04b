"""Ray: run the cases of a benchmark suite as Ray tasks, each with exactly one result.

The cases are queued in a database, as with ``satiety bench run --distributed``. Each Ray task runs
``satiety worker --once`` on its node: it takes cases with leases, so that a case whose task is lost returns to the
queue, and results are stored once.

Needs ``ray``: ``pip install satiety[ray]``.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import ray
import ray.exceptions

from ._command import find_command
from ._errors import SatietyError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_POLL_SECONDS = 0.5
_LEASE_SECONDS = 30.0
_FAILURES_IN_A_ROW = 5
_END_SECONDS = 10.0
# Exit codes of a complete run: passed, regression, inconclusive.
_COMPLETE = (0, 1, 3)

Verdict = Literal["pass", "regression", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a run."""

    run_id: str
    planned: int
    """Number of results when complete."""
    waiting: int
    """Cases that wait for a task."""
    in_progress: int
    """Cases that tasks run."""

    @property
    def done(self) -> int:
        """Number of stored results."""
        return max(0, self.planned - self.waiting - self.in_progress)


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """A complete run."""

    run_id: str
    report: dict[str, Any]
    """The run as ``satiety bench run --format json`` prints it, with its results."""

    @property
    def summary(self) -> dict[str, Any]:
        """Metrics of the run, such as ``pass_rate`` and ``counts``."""
        summary: dict[str, Any] = self.report.get("summary") or {}
        return summary

    @property
    def pass_rate(self) -> float | None:
        """Share of passed results, from 0 to 1."""
        rate: float | None = self.summary.get("pass_rate")
        return rate

    @property
    def verdict(self) -> Verdict | None:
        """Verdict of the regression gate; ``None`` for a run without one."""
        gate = self.report.get("gate")
        verdict: Verdict | None = gate["verdict"] if gate else None
        return verdict

    @property
    def results(self) -> list[dict[str, Any]]:
        """Results, one for each case and repeat."""
        results: list[dict[str, Any]] = self.report["results"]
        return results


def run_suite(
    suite: str | Path,
    *,
    store_url: str,
    tasks: int = 4,
    concurrency: int = 4,
    cases_per_task: int | None = None,
    gate: bool = False,
    arguments: Sequence[str] = (),
    root: str | Path = ".",
    task_root: str | Path | None = None,
    lease: float = _LEASE_SECONDS,
    environment: Mapping[str, str] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    **ray_options: Any,
) -> SuiteRun:
    """Run the cases of a suite as Ray tasks and return the complete run.

    Every case and repeat has exactly one result, also if tasks, nodes or this process die: results that were stored
    are kept, and ``satiety worker`` or another call can finish the run.

    Args:
        suite: Directory or file of the suite, below ``root``.
        store_url: Database that all nodes can reach: ``postgres://…``, or ``sqlite:FILE`` on one machine.
        tasks: Number of Ray tasks at a time.
        concurrency: Cases that a task runs at a time.
        cases_per_task: Cases after which a task ends and another one is submitted, so that Ray can move the work;
            by default a task works until no case is left.
        gate: Whether to compare the run with the suite's baseline.
        arguments: More options of ``satiety bench run``, such as ``["--repeats", "5", "--rpm", "600"]``.
        root: Directory that paths are relative to: the checkout of this process.
        task_root: The same directory on the nodes, whose files must be identical; ``"."`` with a ``working_dir`` of
            Ray. By default the absolute path of ``root``.
        lease: Seconds after which the cases of a lost task return to the queue.
        environment: More environment variables for the tasks, such as API keys.
        on_progress: Function that is called when the progress changes.
        **ray_options: Options of the Ray tasks, such as ``num_cpus``, ``resources``, ``runtime_env``, ``max_retries``.

    Raises:
        SatietyError: If the suite cannot be queued, or tasks fail again and again.

    """
    for name, count in (("tasks", tasks), ("concurrency", concurrency), ("cases_per_task", cases_per_task)):
        if count is not None and count < 1:
            raise SatietyError(f"{name} must be at least 1, not {count}", where=name)
    place = Path(root).resolve()
    driver = {**os.environ, **(environment or {}), "SATIETY_STORE_URL": store_url}
    # The path as the command sees it: relative to the root, or absolute.
    run = ["bench", "run", str(suite), "--distributed", "--root", str(place), "--format", "json", *arguments]
    run += ["--gate"] if gate else []
    queued = _json(_command([*run, "--detach"], place, driver))
    run_id, planned = queued["runs"][0]["run_id"], queued["runs"][0]["planned"]
    limit = [] if cases_per_task is None else ["--max-cases", str(cases_per_task)]
    work = ["worker", "--once", "--wait", "--run", run_id, "--root", str(place if task_root is None else task_root)]
    work += ["-j", str(concurrency), "--lease", str(lease), "--format", "json", *limit]
    options = {"max_retries": 3, "retry_exceptions": True, **ray_options}
    extra = {**(environment or {}), "SATIETY_STORE_URL": store_url}
    task = ray.remote(_work).options(**options)
    # Waits for the last result, completes the run and applies the gate. Files, because a pipe would fill up.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        waiting = subprocess.Popen(  # noqa: S603
            [str(find_command()), *run, "--resume", run_id],
            cwd=place,
            env=driver,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
        )
        try:
            _supervise(lambda: task.remote(work, extra), tasks, waiting, _Watch(run_id, planned, driver, on_progress))
        finally:
            # Only the waiting ends: the cases stay in the queue.
            if waiting.poll() is None:
                waiting.terminate()
            waiting.wait()
        output.seek(0)
        errors.seek(0)
        if waiting.returncode not in _COMPLETE:
            raise _failure(f"cannot complete run {run_id}", errors.read().decode(errors="replace"))
        return SuiteRun(run_id, json.load(output))


def _work(arguments: list[str], environment: dict[str, str]) -> dict[str, Any]:
    """Take cases until none is left; runs as a Ray task on a node."""
    return _json(_command(arguments, None, {**os.environ, **environment}))


class _Watch:
    """Reports the progress of a run when it changes."""

    def __init__(
        self, run_id: str, planned: int, environment: dict[str, str], on_progress: Callable[[Progress], None] | None
    ) -> None:
        self._run_id = run_id
        self._planned = planned
        self._environment = environment
        self._on_progress = on_progress
        self._last: Progress | None = None

    def report(self, *, complete: bool = False) -> None:
        if self._on_progress is None:
            return
        waiting = in_progress = 0
        if not complete:
            try:
                status = _json(_command(["worker", "status", "--format", "json"], None, self._environment))
            except SatietyError:
                # The tasks wait for a database that is unavailable; so does the progress.
                return
            found = [run for run in status["runs"] if run["run_id"] == self._run_id]
            if not found:
                # All results are stored and the report is under way, or many other runs are before this one.
                return
            waiting, in_progress = found[0]["waiting"], found[0]["in_progress"]
        progress = Progress(self._run_id, self._planned, waiting, in_progress)
        if progress != self._last:
            self._last = progress
            self._on_progress(progress)


def _supervise(
    submit: Callable[[], ray.ObjectRef[dict[str, Any]]], tasks: int, waiting: subprocess.Popen[bytes], watch: _Watch
) -> None:
    """Keep tasks at work until the run is complete."""
    pending = [submit() for _ in range(tasks)]
    failures = 0
    try:
        while waiting.poll() is None:
            watch.report()
            if not pending:
                time.sleep(_POLL_SECONDS)
                pending = [submit()]
            ended, pending = ray.wait(pending, num_returns=1, timeout=_POLL_SECONDS)
            for reference in ended:
                ran = _ran(reference)
                if isinstance(ran, ray.exceptions.RayError):
                    failures += 1
                    if failures >= _FAILURES_IN_A_ROW:
                        raise SatietyError(f"{failures} Ray tasks failed in a row: {ran}") from ran
                    # Its cases return to the queue when their lease ends.
                    pending.append(submit())
                else:
                    failures = 0
                    # Without a case it ended because none is left.
                    if ran > 0:
                        pending.append(submit())
        # Tasks end by themselves once the run is complete; one of them may be sending its alert.
        if pending:
            _, pending = ray.wait(pending, num_returns=len(pending), timeout=_END_SECONDS)
        if waiting.returncode in _COMPLETE:
            watch.report(complete=True)
    finally:
        for reference in pending:
            ray.cancel(reference)


def _ran(reference: ray.ObjectRef[dict[str, Any]]) -> int | ray.exceptions.RayError:
    """Return the number of cases that a task ran, also those that another task has stored, or why it failed."""
    try:
        worked = ray.get(reference)
    except ray.exceptions.RayError as error:
        return error
    ran: int = worked["kept"] + worked["late"]
    return ran


def _command(arguments: Sequence[str], directory: Path | None, environment: Mapping[str, str]) -> str:
    """Run the command and return its output."""
    ended = subprocess.run(  # noqa: S603
        [str(find_command()), *arguments],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode != 0:
        raise _failure(f"`satiety {arguments[0]}` failed with exit code {ended.returncode}", ended.stderr)
    return ended.stdout


def _failure(message: str, errors: str) -> SatietyError:
    lines = [line for line in errors.strip().splitlines() if line]
    hints = [line.removeprefix("hint: ") for line in lines if line.startswith("hint: ")]
    causes = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")] or lines[-1:]
    return SatietyError(": ".join([message, *causes[:1]]), hint=hints[0] if hints else None)


def _json(output: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(output)
    return value
