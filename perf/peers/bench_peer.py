"""Runs the same cases with another harness in a separate process: `python bench_peer.py pydantic|inspect SUITE.json`.

The task returns the question, the check compares it with the expected answer. Prints the number of results and of
passes. Written for this comparison.
"""

import json
import sys
import tempfile


def cases(path):
    with open(path, encoding="utf-8") as file:
        for case in json.load(file)["cases"]:
            yield case["case_id"], case["input"]["goal"], case["expected"]["value"]


def pydantic(path):
    from pydantic_evals import Case, Dataset
    from pydantic_evals.evaluators import EqualsExpected

    dataset = Dataset(
        name="perf",
        cases=[Case(name=name, inputs=goal, expected_output=value) for name, goal, value in cases(path)],
        evaluators=[EqualsExpected()],
    )

    async def task(text: str) -> str:
        return text

    report = dataset.evaluate_sync(task, progress=False)
    passed = sum(all(found.value for found in case.assertions.values()) for case in report.cases)
    return len(report.cases), passed


def inspect(path):
    from inspect_ai import Task, eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.scorer import match
    from inspect_ai.solver import solver

    @solver
    def echo():
        async def solve(state, generate):
            state.output.completion = state.input_text
            return state

        return solve

    samples = [Sample(id=name, input=goal, target=value) for name, goal, value in cases(path)]
    task = Task(dataset=MemoryDataset(samples), solver=echo(), scorer=match(location="exact"))
    with tempfile.TemporaryDirectory() as folder:
        log = eval(task, model="mockllm/model", log_dir=folder, display="none", log_realtime=False)[0]
        # Samples are read from the log file.
        found = [next(iter(sample.scores.values())).value for sample in log.samples]
    return len(found), sum(value == "C" for value in found)


if __name__ == "__main__":
    results, passed = {"pydantic": pydantic, "inspect": inspect}[sys.argv[1]](sys.argv[2])
    print(json.dumps({"results": results, "passed": passed}))
