"""Eviction, search gate, conversations, whole logs and embeddings."""

import numpy as np
import pytest
import satiety
from satiety import eviction


def test_a_context_is_brought_under_its_budget() -> None:
    context = eviction.Context(300, goal="fix the parser")
    for number in range(6):
        context.add(f"m{number}", f"message number {number}", tokens=100)
        context.next_turn()
    context.pin("m0")
    context.use("m1", "m1")
    proposal = context.propose()
    assert proposal.need_tokens == 300
    assert "m0" not in proposal.ids
    assert "m1" not in proposal.ids[:1]
    found = context.resolve()
    assert found.freed_tokens >= 300
    assert context.tokens <= 300
    assert {item.id for item in context.items} == {f"m{n}" for n in range(6)} - set(found.evicted)
    assert repr(context).startswith("Context(")


def test_exclusions_keep_items() -> None:
    context = eviction.Context(100)
    for number in range(8):
        context.add(f"m{number}", tokens=50)
    proposal = context.propose(200)
    keep = proposal.ids[0]
    found = context.resolve({keep: "still needed"})
    assert found.kept == (keep,)
    assert keep not in found.evicted
    with pytest.raises(satiety.SatietyError, match="no proposal is open"):
        context.resolve()


def test_a_proposal_waits_until_it_pays() -> None:
    context = eviction.Context(100_000)
    for number in range(20):
        context.add(f"m{number}", tokens=1_000)
        context.next_turn()
    assert context.propose().cost is None
    soon_over = context.propose(provider="anthropic", remaining_turns=0)
    assert soon_over.ids == ()
    assert soon_over.cost is None or soon_over.cost.decision == "below_break_even"
    long = context.propose(provider="anthropic", remaining_turns=10_000)
    assert long.cost is not None
    assert long.cost.decision == "pays"
    assert long.cost.net > 0
    assert long.ids
    with pytest.raises(satiety.SatietyError, match="unknown"):
        context.propose(provider="unknown")
    with pytest.raises(satiety.SatietyError, match="remaining_turns"):
        context.propose(provider="anthropic", remaining_turns=-1.0)


def test_repeated_results_stop_a_search() -> None:
    gate = satiety.SearchGate("how do heated wings bend", epsilon=0.0, meaning=False)
    results = [{"title": "Wings", "url": "https://example.org/1", "snippet": "Heated wings bend up. Ribs carry it."}]
    decisions = [gate.observe(results).decision for _ in range(3)]
    assert decisions == ["continue", "continue", "stop"]
    assert satiety.SearchGate(epsilon=0.0, meaning=False).observe(["plain text counts as well"]).novelty == 1.0


def test_a_search_stops_when_little_is_missed() -> None:
    gate = satiety.SearchGate(stop="missed", max_missed=0.1, meaning=False)
    results = [{"url": f"https://example.org/{n}", "snippet": f"Wing {n} bends."} for n in range(5)]
    verdicts = [gate.observe(results) for _ in range(2)]
    assert [verdict.decision for verdict in verdicts] == ["continue", "stop"]
    assert verdicts[1].missed is not None
    assert verdicts[0].missed is not None
    assert verdicts[1].missed < verdicts[0].missed
    fixed = satiety.SearchGate(stop="fixed", min_rounds=1, max_rounds=2, meaning=False)
    assert [fixed.observe(results).decision for _ in range(2)] == ["continue", "stop"]
    with pytest.raises(satiety.SatietyError, match="never"):
        satiety.SearchGate(stop="never")  # type: ignore[arg-type]


def test_a_discussion_that_repeats_itself_ships() -> None:
    conversation = satiety.Conversation(meaning=False)
    signals = [
        conversation.observe(
            ["The cache is cold after every deploy.", "Warm it from the access log."],
            next_actions=["Write a warm-up job that replays the access log."],
        ).signal
        for _ in range(2)
    ]
    assert signals == ["CONTINUE", "SHIP"]
    report = conversation.report()
    assert (report.kind, report.first_stop, report.signals) == ("deliberation", 2, ("CONTINUE", "SHIP"))


def test_whole_logs_are_scored() -> None:
    said = [{"role": "assistant", "content": "Postgres supports concurrent writes. Write the benchmark next."}] * 3
    assert satiety.score([{"role": "user", "content": "Which database?"}, *said], meaning=False).kind == "deliberation"
    done = [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "1", "name": "bash", "input": {"command": "make"}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "error: no rule"}]},
    ] * 8
    report = satiety.score([{"role": "user", "content": "build it"}, *done], meaning=False)
    assert (report.kind, report.signal) == ("work", "ESCALATE")
    assert report.first_stop is not None
    assert report.wasted_steps == 7
    assert "<svg" in report.plot()._repr_svg_()


def test_embeddings_have_unit_length_and_meaning() -> None:
    model = satiety.Embedder()
    vectors = model.encode(["A cat sits on the mat.", "A kitten is on the rug.", "Interest rates rose."])
    assert (vectors.shape, str(vectors.dtype)) == ((3, model.dimension), "float32")
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 1], abs=1e-5)
    similar, different = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert similar > 0.5 > 0.2 > different
    single = model.encode("A cat sits on the mat.")
    assert single.shape == (model.dimension,)
    assert np.allclose(single, vectors[0], atol=1e-5)


def test_meaning_recognizes_paraphrased_searches() -> None:
    queries = [
        "how to fix the import error in the parser module",
        "how do I repair the import error of the parser module",
        "fixing the import error in the module of the parser",
        "repair import error in parser module",
    ]

    def level(*, meaning: bool) -> float:
        progress = satiety.Progress(meaning=meaning)
        for number, query in enumerate(queries):
            call = {
                "id": str(number),
                "type": "function",
                "function": {"name": "search", "arguments": {"query": query}},
            }
            progress.observe(
                [
                    {"role": "assistant", "content": "", "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": str(number), "content": "No results found."},
                ]
            )
        return progress.verdict.level

    assert level(meaning=True) >= level(meaning=False) > 0
