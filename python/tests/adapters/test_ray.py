from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("ray")

import ray
import satiety
from satiety.ray import Progress, SuiteRun, run_suite

if TYPE_CHECKING:
    from collections.abc import Iterator

# Targets without a sandbox: the machine of the test may not allow namespaces.
ENVIRONMENT = {"SATIETY_BENCH_SANDBOX": "off"}


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SATIETY_BENCH_SANDBOX", "off")
    return tmp_path / "repo"


def write_suite(root: Path, cases: int, seconds: float) -> str:
    suite = root / "suite"
    suite.mkdir(parents=True)
    rows = [
        {
            "case_id": f"c{number:03}",
            "input": {"goal": "ok" if number % 10 else "no"},
            "expected": {"mode": "exact", "value": "ok"},
        }
        for number in range(cases)
    ]
    (suite / "suite.json").write_text(json.dumps({"suite_id": "ray", "target": "agent", "cases": rows}))
    (suite / "agent.sh").write_text(f'sleep {seconds}\ngrep -q \'"goal":"ok"\' && printf ok || printf no\n')
    (suite / "target.toml").write_text("type = 'exec'\ncommand = 'sh'\nargs = ['{{base}}/agent.sh']\n")
    return f"sqlite:{root.parent / 'store.db'}"


def check(run: SuiteRun, cases: int) -> None:
    results = Counter(result["case_id"] for result in run.results)
    assert len(results) == cases
    assert set(results.values()) == {1}
    assert run.summary["counts"]["pass"] == cases - -(-cases // 10)


def test_cases_run_as_ray_tasks_and_have_one_result_each(root: Path) -> None:
    url = write_suite(root, 20, 0)
    seen: list[Progress] = []
    run = run_suite(
        "suite",
        store_url=url,
        root=root,
        tasks=3,
        concurrency=2,
        cases_per_task=4,
        environment=ENVIRONMENT,
        on_progress=seen.append,
        num_cpus=1,
    )
    check(run, 20)
    assert run.pass_rate == pytest.approx(0.9)
    assert run.verdict is None
    assert seen[-1] == Progress(run.run_id, 20, 0, 0)
    assert seen[-1].done == 20


def test_a_killed_task_loses_no_case_and_repeats_no_result(root: Path) -> None:
    url = write_suite(root, 40, 0.3)
    outcome: list[SuiteRun | BaseException] = []

    def work() -> None:
        try:
            outcome.append(
                run_suite("suite", store_url=url, root=root, tasks=2, concurrency=2, lease=1, environment=ENVIRONMENT)
            )
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    killed: set[int] = set()
    for _ in range(2):
        killed.add(kill_a_task(root, killed, deadline=30.0))
    thread.join(timeout=120)
    assert not thread.is_alive()
    run = outcome[0]
    assert isinstance(run, SuiteRun), run
    check(run, 40)


def kill_a_task(root: Path, killed: set[int], deadline: float) -> int:
    """Kill another worker process of this test and the Ray process that started it; return the id of the worker."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        for process in Path("/proc").iterdir():
            if not process.name.isdigit() or int(process.name) in killed:
                continue
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
                parent = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
                title = Path(f"/proc/{parent}/cmdline").read_bytes()
            except OSError:
                continue
            if b"worker" in words and str(root.resolve()).encode() in words and title.startswith(b"ray::"):
                time.sleep(0.5)
                os.kill(parent, signal.SIGKILL)
                os.kill(int(process.name), signal.SIGKILL)
                return int(process.name)
        time.sleep(0.05)
    raise AssertionError("no task started a worker")


def test_invalid_calls_are_errors(root: Path) -> None:
    url = write_suite(root, 1, 0)
    calls: list[tuple[dict[str, Any], str]] = [
        ({"tasks": 0}, "tasks must be at least 1"),
        ({"suite": "nowhere"}, "nowhere"),
        ({"arguments": ["--priority", "urgent"]}, "urgent"),
    ]
    for changed, message in calls:
        options = {"suite": "suite", "store_url": url, "root": root, **changed}
        with pytest.raises(satiety.SatietyError, match=message):
            run_suite(**options)
