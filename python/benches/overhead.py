"""Time of the import, of one step of Progress, and of two threads against one."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import numpy as np
import satiety
from _measure import cpu_seconds
from satiety import stats

IMPORT = """
import time
before = time.process_time()
import satiety
print(time.process_time() - before)
"""


def import_seconds() -> float:
    """Smallest CPU time of `import satiety` in a new process."""
    found = [
        float(subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True).stdout)
        for _ in range(7)
    ]
    return min(found)


def speed_up() -> float:
    """How much faster two threads do the same work than one, at best over some attempts."""
    values = np.random.default_rng(1).normal(size=5000)

    def work() -> None:
        for seed in range(8):
            stats.bootstrap(values, resamples=4000, seed=seed)

    def on(threads: int) -> float:
        before = time.perf_counter()
        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return (time.perf_counter() - before) / threads

    work()
    return max(on(1) / on(2) for _ in range(5))


def step_seconds(*, meaning: bool) -> float:
    """CPU time of observing one step of an agent."""
    steps = 200
    messages = [
        {
            "role": "assistant",
            "content": f"I will look at module {number} of the parser and see how it handles errors.",
            "tool_calls": [
                {"id": str(number), "function": {"name": "read", "arguments": {"path": f"src/module{number}.py"}}}
            ],
        }
        for number in range(steps)
    ]
    answers = [
        {"role": "tool", "tool_call_id": str(number), "content": f"def parse_{number}(): ..."}
        for number in range(steps)
    ]

    def run() -> None:
        progress = satiety.Progress(meaning=meaning)
        for call, answer in zip(messages, answers, strict=True):
            progress.observe([call, answer])

    return cpu_seconds(run) / steps


def main() -> None:
    print(f"import satiety                      {1000 * import_seconds():8.1f} ms CPU")
    print(f"two threads against one             {speed_up():8.2f} times as fast")
    print(f"one step of Progress, words         {1e6 * step_seconds(meaning=False):8.0f} µs CPU")
    print(f"one step of Progress, with meaning  {1e6 * step_seconds(meaning=True):8.0f} µs CPU")


if __name__ == "__main__":
    main()
