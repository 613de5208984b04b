"""Junk of every kind sent to every function is a SatietyError that names a field: no panic, no other error."""

import itertools
import math
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import satiety
from satiety import bench, eviction, retrieval, stats

LOOP: list[Any] = []
LOOP.append(LOOP)


class Hostile:
    """Raises whatever is asked of it."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)


JUNK: list[Any] = [
    None,
    True,
    -1,
    2**70,
    math.nan,
    math.inf,
    "",
    "text",
    "\ud800",
    b"bytes",
    [],
    [None],
    [[]],
    [math.nan],
    [[1, 2], [3]],
    ["text"],
    [{}],
    [{"content": "no role"}],
    {},
    {"a": None},
    {1: {2: "x"}},
    {"q": {"d": math.nan}},
    LOOP,
    object(),
    object,
    len,
    np.zeros((2, 2)),
    np.array(["a"]),
    np.array([1 + 2j]),
    np.array(3.0),
    pandas.DataFrame({"other": [1]}),
    pandas.DataFrame(),
    Path("/does/not/exist"),
    (1, 2, 3, 4, 5, 6),
    range(3),
    {"a", "b"},
]

ANY: Any = "maybe"
QRELS, RUN = {"q": {"d": 1}}, {"q": {"d": 1.0}}
ROWS = [("a", 0, True), ("b", 0, False)]


def context() -> eviction.Context:
    found = eviction.Context(10)
    found.add("a", tokens=20)
    return found


FUNCTIONS: dict[str, Callable[[Any], object]] = {
    "Progress.observe": lambda junk: satiety.Progress(meaning=False).observe(junk),
    "Progress.profile": lambda junk: satiety.Progress(profile=junk, meaning=False),
    "score": lambda junk: satiety.score(junk, meaning=False),
    "Conversation.observe": lambda junk: satiety.Conversation(meaning=False).observe(junk),
    "Conversation.next_actions": lambda junk: satiety.Conversation(meaning=False).observe(["a"], next_actions=junk),
    "Conversation.agent": lambda junk: satiety.Conversation(meaning=False).observe(["a"], agent=junk),
    "Conversation.profile": lambda junk: satiety.Conversation(profile=junk, meaning=False),
    "SearchGate": lambda junk: satiety.SearchGate(junk, meaning=False),
    "SearchGate.threshold": lambda junk: satiety.SearchGate("t", threshold=junk, meaning=False),
    "SearchGate.max_rounds": lambda junk: satiety.SearchGate("t", max_rounds=junk, meaning=False),
    "SearchGate.observe": lambda junk: satiety.SearchGate("t", meaning=False).observe(junk),
    "Embedder": lambda junk: satiety.Embedder(junk),
    "Embedder.encode": lambda junk: satiety.Embedder().encode(junk),
    "Embedder.threads": lambda junk: satiety.Embedder().encode("a", threads=junk),
    "bench.compare.before": lambda junk: bench.compare(junk, ROWS),
    "bench.compare.after": lambda junk: bench.compare(ROWS, junk),
    "bench.compare.row": lambda junk: bench.compare(ROWS, [junk]),
    "bench.compare.case": lambda junk: bench.compare(ROWS, [(junk, 0, True)]),
    "bench.compare.repeat": lambda junk: bench.compare(ROWS, [("a", junk, True)]),
    "bench.compare.passed": lambda junk: bench.compare(ROWS, [("a", 0, junk)]),
    "bench.compare.score": lambda junk: bench.compare(ROWS, [{"case": "a", "passed": True, "score": junk}]),
    "bench.compare.alpha": lambda junk: bench.compare(ROWS, ROWS, alpha=junk),
    "bench.Sequential": lambda junk: bench.Sequential(junk),
    "bench.Sequential.alpha": lambda junk: bench.Sequential(2, alpha=junk),
    "bench.Sequential.case": lambda junk: bench.Sequential(2).observe(junk, 0, True, True),
    "bench.Sequential.repeat": lambda junk: bench.Sequential(2).observe("a", junk, True, True),
    "bench.Sequential.before": lambda junk: bench.Sequential(2).observe("a", 0, junk, True),
    "bench.power": lambda junk: bench.power(junk),
    "bench.power.noise": lambda junk: bench.power(3, noise=junk),
    "bench.saturation": lambda junk: bench.saturation(junk),
    "bench.saturation.run": lambda junk: bench.saturation([junk, ROWS]),
    "retrieval.qrels": lambda junk: retrieval.evaluate(junk, RUN),
    "retrieval.run": lambda junk: retrieval.evaluate(QRELS, junk),
    "retrieval.grade": lambda junk: retrieval.evaluate({"q": {"d": junk}}, RUN),
    "retrieval.score": lambda junk: retrieval.evaluate(QRELS, {"q": {"d": junk}}),
    "retrieval.documents": lambda junk: retrieval.evaluate(QRELS, {"q": junk}),
    "retrieval.measures": lambda junk: retrieval.evaluate(QRELS, RUN, junk),
    "retrieval.measure": lambda junk: retrieval.evaluate(QRELS, RUN, [junk]),
    "retrieval.threshold": lambda junk: retrieval.evaluate(QRELS, RUN, relevance_threshold=junk),
    "retrieval.missing": lambda junk: retrieval.evaluate(QRELS, RUN, missing=junk),
    "retrieval.compare": lambda junk: retrieval.compare(QRELS, RUN, junk),
    "retrieval.compare.alpha": lambda junk: retrieval.compare(QRELS, RUN, RUN, alpha=junk),
    "stats.bootstrap": lambda junk: stats.bootstrap(junk),
    "stats.bootstrap.clusters": lambda junk: stats.bootstrap([1.0, 2.0], clusters=junk),
    "stats.bootstrap.resamples": lambda junk: stats.bootstrap([1.0, 2.0], resamples=junk),
    "stats.bootstrap.method": lambda junk: stats.bootstrap([1.0, 2.0], method=junk),
    "stats.permutation_test": lambda junk: stats.permutation_test(junk),
    "stats.permutation_test.control": lambda junk: stats.permutation_test([1.0, 2.0], junk),
    "stats.permutation_test.alternative": lambda junk: stats.permutation_test([1.0, 2.0], alternative=junk),
    "stats.paired_t_test": lambda junk: stats.paired_t_test(junk),
    "stats.welch_t_test": lambda junk: stats.welch_t_test(junk, [1.0, 2.0]),
    "stats.sign_test": lambda junk: stats.sign_test(junk, 1),
    "stats.wilson": lambda junk: stats.wilson(1, junk),
    "stats.pass_at_k": lambda junk: stats.pass_at_k(junk, 1, 1),
    "stats.unseen": lambda junk: stats.unseen(junk),
    "stats.kendall_tau": lambda junk: stats.kendall_tau(junk, [1.0, 2.0]),
    "stats.ConfidenceSequence": lambda junk: stats.ConfidenceSequence(junk),
    "stats.ConfidenceSequence.observe": lambda junk: stats.ConfidenceSequence().observe(junk),
    "stats.Sprt": lambda junk: stats.Sprt(junk),
    "stats.Sprt.observe": lambda junk: stats.Sprt(0.5).observe(junk),
    "eviction.Context": lambda junk: eviction.Context(junk),
    "eviction.Context.goal": lambda junk: eviction.Context(10).set_goal(junk),
    "eviction.add.id": lambda junk: eviction.Context(10).add(junk, tokens=3),
    "eviction.add.content": lambda junk: eviction.Context(10).add("a", junk),
    "eviction.add.tokens": lambda junk: eviction.Context(10).add("a", "b", tokens=junk),
    "eviction.add.references": lambda junk: eviction.Context(10).add("a", "b", references=junk),
    "eviction.add.loss": lambda junk: eviction.Context(10).add("a", "b", loss=junk),
    "eviction.use": lambda junk: context().use(junk),
    "eviction.pin": lambda junk: context().pin(junk),
    "eviction.propose": lambda junk: context().propose(junk),
    "eviction.resolve": lambda junk: (found := context(), found.propose(), found.resolve(junk)),
}


def refusal(function: Callable[[Any], object], junk: object) -> satiety.SatietyError | None:
    """Call a function; any other error than a refusal fails the test."""
    try:
        function(junk)
    except satiety.SatietyError as error:
        return error
    return None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_junk_is_refused_with_the_field(name: str) -> None:
    errors = [error for error in (refusal(FUNCTIONS[name], junk) for junk in JUNK) if error]
    # Some junk is valid input for some functions, such as an empty string for a goal; most of it is not.
    assert len(errors) >= len(JUNK) // 3
    for error in errors:
        assert str(error)
        assert error.where, str(error)


def test_errors_name_the_field() -> None:
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: satiety.Progress(meaning=False).observe([{"content": "hi"}]), "messages[0].role"),
        (lambda: satiety.score([{"role": "user", "content": math.nan}], meaning=False), "messages[0].content"),
        (lambda: stats.bootstrap([1.0, math.nan]), "values[1]"),
        (lambda: stats.bootstrap([]), "values"),
        (lambda: stats.permutation_test([1.0], [1.0, 2.0]), "control"),
        (lambda: bench.compare(pandas.DataFrame({"case": ["a"]}), ROWS), "before.passed"),
        (lambda: bench.compare(ROWS, [("a", 0, "great")]), "after[0].passed"),
        (lambda: retrieval.evaluate(QRELS, pandas.DataFrame({"query_id": ["q"], "score": [1.0]})), "run.doc_id"),
        (lambda: retrieval.evaluate({"q": {"d": 0.5}}, RUN), "qrels[q][d]"),
        (lambda: retrieval.evaluate(QRELS, RUN, missing=ANY), "options.missing"),
    ]
    for call, where in cases:
        with pytest.raises(satiety.SatietyError) as error:
            call()
        assert error.value.where == where


def test_errors_of_the_caller_pass_through() -> None:
    with pytest.raises(RuntimeError):
        satiety.Progress(meaning=False).observe([Hostile()])


def test_objects_are_shared_by_threads() -> None:
    progress = satiety.Progress(meaning=False)
    sequential = bench.Sequential(10_000)
    held = eviction.Context(1000)
    numbers = itertools.count()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(100):
                number = next(numbers)
                progress.observe({"role": "assistant", "content": f"text number {number}"})
                sequential.observe(f"c{number}", 0, True, True)
                held.add(f"m{number}", tokens=10)
                held.propose()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures
    assert (progress.messages, sequential.state.pairs, len(held)) == (800, 800, 800)
    assert [verdict.step for verdict in progress.verdicts] == list(range(1, len(progress.verdicts) + 1))
