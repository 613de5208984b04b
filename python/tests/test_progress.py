"""An agent that loops is stopped; one that works is left alone."""

import pytest
import satiety


def call(command: str, output: str, number: int) -> list[dict[str, object]]:
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": f"call_{number}",
                    "type": "function",
                    "function": {"name": "bash", "arguments": f'{{"command": "{command}"}}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": f"call_{number}", "content": output},
    ]


def test_a_repeated_failure_is_escalated() -> None:
    progress = satiety.Progress(meaning=False)
    first = progress.observe([{"role": "user", "content": "make the tests pass"}])
    assert (first.signal, first.step, first.reasons) == ("CONTINUE", 0, ("No step is complete yet.",))
    signals = [
        progress.observe(call("pytest tests/x.py", "E   ImportError: no module named x", n)).signal for n in range(7)
    ]
    assert signals[0] == "CONTINUE"
    assert "NUDGE" in signals
    assert signals[-1] == "ESCALATE"
    last = progress.verdict
    assert last.stops
    assert last.nudge
    assert last.expected_waste.steps > 0
    assert last.confidence is not None
    assert 0.5 < last.confidence <= 1
    assert progress.messages == 15
    assert "ESCALATE" in repr(last)
    assert "<table>" in last._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert len(repr(progress).splitlines()) == 8


def test_new_results_are_progress() -> None:
    progress = satiety.Progress(meaning=False)
    for number in range(10):
        verdict = progress.observe(call(f"cat file{number}.py", f"content number {number} of another file", number))
        assert verdict.signal == "CONTINUE"


@pytest.mark.parametrize("junk", [None, "text", 3, [3], ["text"], float("nan"), [{1: 2}], object, [object()]])
def test_junk_is_an_error(junk: object) -> None:
    with pytest.raises(satiety.SatietyError) as error:
        satiety.Progress(meaning=False).observe(junk)
    assert (error.value.where or "").startswith("messages")


def test_a_discussion_is_judged_by_what_is_said() -> None:
    said = {
        "role": "assistant",
        "content": "The cache is cold after every deploy. Next: write a warm-up job that replays the access log.",
    }
    progress = satiety.Progress(meaning=False)
    progress.observe({"role": "user", "content": "Why is the first request slow?"})
    signals = [progress.observe(said).signal for _ in range(3)]
    assert signals[0] == "CONTINUE"
    assert signals[-1] != "CONTINUE"
    whole = satiety.score([{"role": "user", "content": "Why is the first request slow?"}, *[said] * 2], meaning=False)
    assert signals[1] == whole.signal
    progress.observe(call("ls", "warmup.py", 1))
    assert progress.verdict.confidence is not None
