#!/usr/bin/env python3
"""Measures the CPU seconds of a build from scratch (user + system time of cargo and its child processes).

    perf/build_cost.py                          this commit
    perf/build_cost.py --commit 6f9b6ec HEAD    two commits on the same machine, one after the other
    perf/build_cost.py --only release touch     selected measurements

Each commit is cloned into an empty directory and built with an empty target directory; crates are downloaded before
the clock starts. CPU seconds hardly depend on other load; wall time is printed for orientation.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# File that the incremental measurement changes: one capability of the engine.
EDITED = ["crates/satiety-engine/src/research/run.rs", "crates/satiety-engine/src/research/running.rs"]
PRODUCTION = ["crates"]
MEASUREMENTS = ["release", "binary", "touch", "minimal", "library", "test", "lines"]


def cpu_seconds(command, cwd, env):
    """Runs a command and returns (CPU seconds, wall seconds); ends the program when the command fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    done = subprocess.run(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wall = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"`{' '.join(command)}` failed:\n{done.stdout[-4000:]}")
    cpu = (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
    return cpu, wall


def report(name, cpu, wall):
    print(f"  {name:<34}{cpu:8.0f} CPU-s {cpu / 60:6.1f} CPU-min {wall:8.0f} s wall", flush=True)


def production_lines(root):
    """Lines of Rust under crates/*/src without test modules; all of them, and those with code on them."""
    total = code = 0
    for top in PRODUCTION:
        for path in sorted((root / top).glob("*/src/**/*.rs")):
            if path.name.endswith("tests.rs") or "tests" in path.parts:
                continue
            text = path.read_text()
            lines = text.split("\n")
            kept, i = [], 0
            while i < len(lines):
                if lines[i].strip() == "#[cfg(test)]":
                    j = i + 1
                    while j < len(lines) and lines[j].lstrip().startswith("#["):
                        j += 1
                    if j < len(lines) and lines[j].rstrip().endswith("{"):
                        indent = len(lines[i]) - len(lines[i].lstrip())
                        closing = " " * indent + "}"
                        while j < len(lines) and lines[j].rstrip() != closing:
                            j += 1
                    i = j + 1
                    continue
                kept.append(lines[i])
                i += 1
            total += len(kept)
            code += sum(1 for line in kept if line.strip() and not re.match(r"\s*//", line))
    return total, code


def measure(revision, only):
    root = Path(__file__).resolve().parent.parent
    name = subprocess.run(
        ["git", "rev-parse", "--short", revision], cwd=root, capture_output=True, text=True, check=True
    ).stdout.strip()
    print(f"commit {name}", flush=True)
    scratch = Path(tempfile.mkdtemp(prefix="satiety-build-cost-"))
    try:
        clone = scratch / "satiety"
        subprocess.run(["git", "clone", "--quiet", str(root), str(clone)], check=True)
        subprocess.run(["git", "checkout", "--quiet", name], cwd=clone, check=True)
        env = {**os.environ}
        for variable in ("CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR", "RUSTFLAGS", "RUSTC_WRAPPER"):
            env.pop(variable, None)
        subprocess.run(["cargo", "fetch", "--quiet"], cwd=clone, env=env, check=True)
        target = clone / "target"
        if only & {"release", "binary", "touch"}:
            cost = cpu_seconds(["cargo", "build", "--release"], clone, env)
            report("cargo build --release", *cost)
            binary = target / "release" / "satiety"
            print(f"  {'size of the binary':<34}{binary.stat().st_size / 1e6:8.1f} MB", flush=True)
        if "touch" in only:
            touched = next(clone / path for path in EDITED if (clone / path).exists())
            touched.write_text(touched.read_text() + "\n#[allow(dead_code)]\nfn touched() {}\n")
            report("rebuild after editing one file", *cpu_seconds(["cargo", "build", "--release"], clone, env))
        if "library" in only:
            shutil.rmtree(target, ignore_errors=True)
            cost = cpu_seconds(["cargo", "build", "--release", "-p", "satiety"], clone, env)
            report("library with its dependencies", *cost)
        if "minimal" in only:
            shutil.rmtree(target, ignore_errors=True)
            command = ["cargo", "build", "--release", "-p", "satiety-cli", "--no-default-features"]
            report("binary without default features", *cpu_seconds(command, clone, env))
            binary = target / "release" / "satiety"
            print(f"  {'size of that binary':<34}{binary.stat().st_size / 1e6:8.1f} MB", flush=True)
        if "test" in only:
            shutil.rmtree(target, ignore_errors=True)
            report("cargo xtask test", *cpu_seconds(["cargo", "xtask", "test"], clone, env))
        if "lines" in only:
            total, code = production_lines(clone)
            print(f"  {'production lines of Rust':<34}{total:8} ({code} without blank lines and comments)", flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", nargs="+", default=["HEAD"], metavar="REV", help="commits to measure [default: HEAD]")
    parser.add_argument("--only", nargs="+", choices=MEASUREMENTS, default=MEASUREMENTS, help="measurements to make")
    arguments = parser.parse_args()
    for revision in arguments.commit:
        measure(revision, set(arguments.only))


if __name__ == "__main__":
    main()
