"""Asks questions about four documentation trees and measures the answers of `satiety research`.

Usage: python perf/research_answers.py [--satiety target/release/satiety] [--trees DIRECTORY] [--model [words|first|right]] [--words] [--misses]
    [--jobs N] [--work DIRECTORY] [--part known|held-out|last-tree]

The public trees are fetched from the package registries with pip and npm, or taken from DIRECTORY if it has them.
`--model` answers with a scripted chat model behind a local server that copies one of the passages that it is
given, whole, and never refuses: the first of those that share most words with the question (`words`), the first
(`first`), or the one that has the answer (`right`; the first one if none has it, and for questions without an answer). With a model, an answer
is what the model wrote and the quotations below it; the share that the model's own sentences have is printed, too.
`--words` searches without the sentence model. Figures are printed separately for the questions that the code was
changed with, for the held-out ones, and for a tree that was added last: only the rule for definitions was changed after seeing
its misses.
"""

import argparse
import http.server
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from research_questions import HELD_OUT, LAST_TREE, QUESTIONS, TREES

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


class Scripted(http.server.BaseHTTPRequestHandler):
    """A chat model that copies one of the numbered passages with its citation."""

    copies = "words"
    spans: dict = {}

    def choose(self, question, passages):
        if self.copies == "words":
            words = set(re.findall(r"\w{4,}", question.lower()))
            return max(passages, key=lambda passage: sum(word.rstrip("s") in passage.lower() for word in words))
        span = self.spans.get(question.strip())
        if self.copies == "right" and span:
            page = [passage for passage in passages if one_line(span) in one_line(passage)]
            return (page or passages)[0]
        return passages[0]

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = body["messages"][-1]["content"]
        parts = re.findall(r"<(data-\d+)>\n(.*?)\n</\1>", asked, re.DOTALL)
        if "Numbered passages:" in asked:
            best = self.choose(parts[0][1], re.split(r"\n\n(?=\[\d+\] )", parts[1][1]))
            number, text = re.match(r"\[(\d+)\] [^\n]*\n?(.*)", best, re.DOTALL).groups()
            text = f"{text}\n\n[{number}]" if text else "NOT FOUND"
        else:
            text = "5" if "whole number alone" in asked else parts[0][1][:200]
        answer = {
            "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": len(asked) // 4, "completion_tokens": len(text) // 4},
        }
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        """Print nothing per request."""


def one_line(text):
    return " ".join(text.split())


def ask(satiety, tree, question, directory, options, port):
    command = [str(Path(satiety).resolve()), "research", question, "--in", f"local:{tree}", "--epsilon", "0", "--format", "json"]
    environment = {**os.environ, "SATIETY_STORE_URL": f"sqlite:{directory / 'store.db'}", "XDG_CONFIG_HOME": str(directory)}
    if options.model:
        environment["SATIETY_MODELS_CHAT"] = f"openai:scripted@http://127.0.0.1:{port}"
        environment["OPENAI_API_KEY"] = "none"
    if options.words:
        environment["SATIETY_MODELS_EMBEDDER"] = "none"
    found = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=directory)
    if not found.stdout.strip():
        sys.exit(f"{question}: {found.stderr}")
    return json.loads(found.stdout)


class Counts:
    """Counts of one part of the questions."""

    def __init__(self, has_model):
        self.rows = {}
        self.has_model = has_model
        self.quotes = self.verbatim = self.removed = self.by_model = self.first = self.among_eight = 0

    def print(self, title):
        """Print the counts by kind and their totals."""
        print(f"\n{title}\n\n| kind | questions | right page cited | answered (span present) | refused |\n|---|---|---|---|---|")
        for kind, (count, cited, answered, refused) in sorted(self.rows.items()):
            if kind == "unanswerable":
                print(f"| {kind} | {count} | – | – | {refused} |")
            else:
                print(f"| {kind} | {count} | {cited} | {answered} | – |")
        asked = [row for kind, row in self.rows.items() if kind != "unanswerable"]
        total = sum(row[0] for row in asked)
        none = self.rows.get("unanswerable", [0, 0, 0, 0])
        print(
            f"\nright page cited {sum(r[1] for r in asked) / max(total, 1):.2f} of {total}, answered "
            f"{sum(r[2] for r in asked) / max(total, 1):.2f}, refused {none[3]} of {none[0]}, "
            f"verbatim {self.verbatim} of {self.quotes} quotes"
            + (
                f"; {self.by_model / max(total, 1):.2f} answered by the model's own sentences, {self.removed} of them removed"
                if self.has_model
                else ""
            )
            + f"; the passage with the answer is the first result for {self.first}, among the first eight for {self.among_eight}"
        )


def measure(questions, trees, directory, options, port):
    counts = Counts(bool(options.model))
    with ThreadPoolExecutor(max_workers=options.jobs) as pool:
        reports = list(pool.map(lambda one: ask(options.satiety, trees[one[0]], one[2], directory, options, port), questions))
    for (tree, kind, question, page, span), report in zip(questions, reports, strict=True):
        sources = {source["number"]: source["url"].split("#")[0] for source in report["sources"]}
        findings = [finding for answer in report["answers"] for finding in answer["findings"]]
        written = [answer["written"] for answer in report["answers"] if answer.get("written")]
        sentences = [sentence for answer in written for sentence in answer["sentences"]]
        counts.removed += sum(len(answer.get("removed", [])) for answer in written)
        if options.model:
            findings = [quote for sentence in sentences for quote in sentence["quotes"]] + findings
        for finding in findings:
            text = one_line((trees[tree] / sources[finding["source"]]).read_text(encoding="utf-8"))
            counts.quotes += 1
            counts.verbatim += one_line(finding["text"]) in text
        cited = any(sources[finding["source"]] == page for finding in findings)
        shown = sentences + findings
        has_span = any(one_line(span) in one_line(one["text"]) for one in shown) if span else False
        results = report["rounds"][0]["results"]
        ranks = [
            rank
            for rank, hit in enumerate(results)
            if page and hit["url"].split("#")[0] == page and one_line(span) in one_line(hit["snippet"])
        ]
        counts.first += ranks[:1] == [0]
        counts.among_eight += bool(ranks) and ranks[0] < 8
        counts.by_model += bool(span) and any(one_line(span) in one_line(one["text"]) for one in sentences)
        is_open = all(answer["open"] for answer in report["answers"])
        row = counts.rows.setdefault("unanswerable" if page is None else kind, [0, 0, 0, 0])
        row[0] += 1
        row[1] += page is not None and cited
        row[2] += page is not None and has_span and not is_open
        row[3] += page is None and is_open
        missed = not is_open if page is None else not (has_span and not is_open)
        if missed and options.misses:
            state = [answer.get("state") for answer in report["answers"]]
            print(f"MISS {tree} {question} cited={cited} span={has_span} open={is_open} {state}")
            for finding in findings[:3]:
                print("    ", sources[finding["source"]], one_line(finding["text"])[:160])
    return counts


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--satiety", default=str(ROOT / "target/release/satiety"))
    arguments.add_argument("--trees", type=Path)
    arguments.add_argument("--model", nargs="?", const="words", choices=["words", "first", "right"])
    arguments.add_argument("--words", action="store_true")
    arguments.add_argument("--misses", action="store_true")
    arguments.add_argument("--work", type=Path, help="directory for the store and the indexes, to use them again")
    arguments.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments.add_argument("--part", choices=["known", "held-out", "last-tree"])
    options = arguments.parse_args()
    Scripted.copies = options.model or "words"
    Scripted.spans = {question: span for _, _, question, _, span in QUESTIONS + HELD_OUT + LAST_TREE}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.work or Path(temporary)
        below = options.trees or directory
        trees = {name: fetch(name, below) for name in TREES}
        parts = [
            ("known", "Questions that the code was changed with", QUESTIONS),
            ("held-out", "Held-out questions", HELD_OUT),
            ("last-tree", "Questions about the tree that was added last", LAST_TREE),
        ]
        # The first question about a tree indexes it.
        for tree in trees.values():
            ask(options.satiety, tree, "What is this about?", directory, options, server.server_port)
        for part, title, questions in parts:
            if options.part in (None, part):
                measure(questions, trees, directory, options, server.server_port).print(title)


if __name__ == "__main__":
    main()
