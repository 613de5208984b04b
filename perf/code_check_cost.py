"""What a program as a check adds to a case: `satiety bench run` with JavaScript or Python checks, compared with a
check without a program. CPU time of the whole process tree, so that a busy machine changes little.

Usage: python3 perf/code_check_cost.py PATH_OF_SATIETY [CASES]
"""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

CHECKS = {
    "none": {"type": "contains", "value": "word"},
    "javascript": {"type": "javascript", "value": "output.length > 3 && output.includes('word')"},
    "python": {"type": "python", "value": "len(output) > 3 and 'word' in output"},
}


def cost(satiety, check, cases):
    """CPU seconds of a run."""
    with tempfile.TemporaryDirectory() as folder:
        tests = [{"vars": {"text": f"word {number}"}, "assert": [check]} for number in range(cases)]
        config = {"prompts": ["{{text}}"], "providers": ["echo"], "tests": tests}
        (pathlib.Path(folder) / "promptfooconfig.json").write_text(json.dumps(config))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        environment = {"HOME": folder, "PATH": os.environ["PATH"]}
        command = [satiety, "bench", "run", "promptfooconfig.json", "--format", "json"]
        run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        passed = json.loads(run.stdout)["summary"]["counts"]["pass"]
        if passed != cases:
            sys.exit(f"{passed} of {cases} cases passed: {run.stderr.decode()}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    satiety = os.path.abspath(sys.argv[1])
    cases = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    for name, check in CHECKS.items():
        runs = sorted(cost(satiety, check, cases) for _ in range(3))
        base = runs[1] if name == "none" else base
        print(f"{name}: {runs[1]:.2f} CPU-s for {cases} cases, {1e3 * (runs[1] - base) / cases:+.3f} ms a case")


main()
