#!/usr/bin/env python3
"""Cost of one call of a hook, process start included, in a session with 2,000 earlier steps and a transcript of 10 MB.

    cargo build --release -p satiety-cli && python3 perf/hook_cost.py target/release/satiety

Prints CPU and wall time of each event at the median and the 95th percentile.
"""

import json
import os
import subprocess
import sys
import tempfile
import time


def call(program, home, event, payload):
    """Runs a hook; returns its output, its CPU time and its wall time in milliseconds."""
    begin = time.monotonic()
    process = subprocess.Popen(
        [program, "hook", event, "--for", "claude"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        cwd=home, env={"HOME": home, "PATH": os.environ["PATH"]},
    )
    process.stdin.write(json.dumps(payload).encode())
    process.stdin.close()
    output, errors = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    assert status == 0 and not errors, (status, errors)
    return output, 1000 * (usage.ru_utime + usage.ru_stime), 1000 * (time.monotonic() - begin)


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main():
    program = os.path.abspath(sys.argv[1])
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    calls = int(sys.argv[3]) if len(sys.argv) > 3 else 200
    with tempfile.TemporaryDirectory() as home:
        transcript = os.path.join(home, "transcript.jsonl")
        with open(transcript, "w", encoding="utf-8") as file:
            for number in range(10_000):
                file.write(json.dumps({"type": "user", "n": number, "text": "x" * 1000}) + "\n")
        notes = os.path.join(home, "notes")
        os.mkdir(notes)
        for number in range(300):
            with open(os.path.join(notes, f"note{number}.md"), "w", encoding="utf-8") as file:
                file.write(f"# Note {number} about module {number % 17}\n\nModule {number} uses setting {number * 7}.\n")
        subprocess.run([program, "memory", "index", notes], check=True, cwd=home, stdout=subprocess.DEVNULL,
                       env={"HOME": home, "PATH": os.environ["PATH"]})
        base = {"session_id": "s", "transcript_path": transcript, "cwd": home}

        def tool(number):
            output = "\n".join(f"src/module{number}/file{line}.rs: {number * line} lines" for line in range(60))
            return {**base, "hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_use_id": f"t{number}",
                    "tool_input": {"command": f"wc -l src/module{number}/*.rs", "description": f"count {number}"},
                    "tool_response": {"stdout": output, "stderr": "", "interrupted": False}}

        for number in range(steps):
            call(program, home, "PostToolUse", tool(number))
        events = {
            "PostToolUse": lambda number: tool(steps + number),
            "UserPromptSubmit": lambda number: {**base, "prompt": f"look at module {number} and fix the migration"},
            "Stop": lambda number: {**base, "stop_hook_active": False, "last_assistant_message": f"Done with {number}."},
            "PreCompact": lambda number: {**base, "trigger": "auto", "custom_instructions": None},
        }
        print(f"{'event':18} {'CPU p50':>9} {'CPU p95':>9} {'wall p50':>9} {'wall p95':>9}   (ms, {calls} calls after {steps} steps)")
        for event, payload in events.items():
            cpu, wall = [], []
            for number in range(calls):
                _, cpu_ms, wall_ms = call(program, home, event, {**payload(number), "hook_event_name": event})
                cpu.append(cpu_ms)
                wall.append(wall_ms)
            figures = [quantile(cpu, 0.5), quantile(cpu, 0.95), quantile(wall, 0.5), quantile(wall, 0.95)]
            print(f"{event:18} " + " ".join(f"{figure:9.1f}" for figure in figures))


if __name__ == "__main__":
    main()
