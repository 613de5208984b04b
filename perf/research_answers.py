"""Asks questions about three documentation trees and measures the answers of `satiety research` without a model.

Usage: python perf/research_answers.py [--satiety target/release/satiety] [--trees DIRECTORY] [--misses]

The public trees are fetched from the package registries with pip and npm, or taken from DIRECTORY if it has them.
"""

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from research_questions import QUESTIONS, TREES

ROOT = Path(__file__).resolve().parent.parent


def fetch(name, below):
    """Return the directory of a documentation tree, fetching it if it is not there yet."""
    command, directory = TREES[name]
    if command is None:
        return ROOT / directory
    target = below / name
    if not target.exists():
        target.mkdir(parents=True)
        subprocess.run(command, cwd=target, check=True, stdout=subprocess.DEVNULL)
        for archive in list(target.glob("*.tgz")) + list(target.glob("*.tar.gz")):
            with tarfile.open(archive) as packed:
                packed.extractall(target, filter="data")
    return target / directory


def one_line(text):
    return " ".join(text.split())


def ask(satiety, tree, question, store):
    command = [str(Path(satiety).resolve()), "research", question, "--in", f"local:{tree}", "--epsilon", "0", "--format", "json"]
    environment = {**os.environ, "SATIETY_STORE_URL": f"sqlite:{store}"}
    found = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=store.parent)
    if not found.stdout.strip():
        sys.exit(f"{question}: {found.stderr}")
    return json.loads(found.stdout)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--satiety", default=str(ROOT / "target/release/satiety"))
    arguments.add_argument("--trees", type=Path)
    arguments.add_argument("--misses", action="store_true")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        below = options.trees or Path(directory)
        trees = {name: fetch(name, below) for name in TREES}
        counts = {}
        quotes = verbatim = 0
        for tree, kind, question, page, span in QUESTIONS:
            report = ask(options.satiety, trees[tree], question, Path(directory) / "store.db")
            sources = {source["number"]: source["url"].split("#")[0] for source in report["sources"]}
            findings = [finding for answer in report["answers"] for finding in answer["findings"]]
            for finding in findings:
                text = one_line((trees[tree] / sources[finding["source"]]).read_text(encoding="utf-8"))
                quotes += 1
                verbatim += one_line(finding["text"]) in text
            cited = any(sources[finding["source"]] == page for finding in findings)
            has_span = any(one_line(span) in one_line(f["text"]) for f in findings) if span else False
            is_open = all(answer["open"] for answer in report["answers"])
            row = counts.setdefault("unanswerable" if page is None else kind, [0, 0, 0, 0])
            row[0] += 1
            if page is None:
                row[3] += is_open
                missed = not is_open
            else:
                row[1] += cited
                row[2] += has_span and not is_open
                missed = not (has_span and not is_open)
            if missed and options.misses:
                state = [answer.get("state") for answer in report["answers"]]
                print(f"MISS {tree} {question} cited={cited} span={has_span} open={is_open} {state}")
                for finding in findings[:3]:
                    print("    ", sources[finding["source"]], one_line(finding["text"])[:160])
        print("| kind | questions | right page cited | answered (span present) | refused |\n|---|---|---|---|---|")
        for kind, (count, cited, answered, refused) in sorted(counts.items()):
            if kind == "unanswerable":
                print(f"| {kind} | {count} | – | – | {refused} |")
            else:
                print(f"| {kind} | {count} | {cited} | {answered} | – |")
        asked = [row for kind, row in counts.items() if kind != "unanswerable"]
        total = sum(row[0] for row in asked)
        none = counts["unanswerable"]
        print(
            f"\nright page cited {sum(r[1] for r in asked) / total:.2f} (target .9), answered "
            f"{sum(r[2] for r in asked) / total:.2f} (.8), refused {none[3] / none[0]:.2f} (.8), "
            f"verbatim {verbatim} of {quotes} quotes"
        )


if __name__ == "__main__":
    main()
