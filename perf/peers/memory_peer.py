"""Typical Python implementation: BM25 with bm25s (or with SQLite's FTS5) and cosines with numpy, fused by scores.

Run by `cargo run --release -p perf --bin memory -- --python PYTHON`; reads texts and vectors from a directory, prints JSON.
"""

import json
import re
import resource
import sqlite3
import sys
import time
from pathlib import Path

import numpy as np

MOST = 100


def fused(words, vector, vectors):
    """Returns the ten best by the mean of both scores; word scores are relative to the best."""
    cosines = vectors @ vector
    near = np.argpartition(-cosines, MOST)[:MOST] if len(cosines) > MOST else np.arange(len(cosines))
    top = max(words.values(), default=1.0) or 1.0
    scores = {int(at): 0.5 * float(cosines[at]) for at in near}
    for at, score in words.items():
        scores[at] = scores.get(at, 0.0) + 0.5 * score / top
    return sorted(scores, key=scores.get, reverse=True)[:10]


def timed(name, began, search, questions, question_vectors, vectors):
    build = time.perf_counter() - began
    times = []
    cpu = time.process_time()
    for question, vector in zip(questions, question_vectors):
        start = time.perf_counter()
        found = fused(search(question), vector, vectors)
        times.append((time.perf_counter() - start) * 1e3)
        assert found, question
    cpu = (time.process_time() - cpu) * 1e3 / len(questions)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return {"name": name, "times": times, "cpu": cpu, "megabytes": megabytes, "build_seconds": build}


def by_fts5(texts):
    base = sqlite3.connect(":memory:")
    base.execute("CREATE VIRTUAL TABLE words USING fts5(body, tokenize = 'porter unicode61')")
    base.executemany("INSERT INTO words (rowid, body) VALUES (?, ?)", enumerate(texts))

    def search(question):
        query = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question.lower()))
        rows = base.execute(
            "SELECT rowid, -bm25(words) FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?", (query, MOST)
        )
        return dict(rows.fetchall())

    return search


def by_bm25s(texts):
    import bm25s

    index = bm25s.BM25(k1=1.2, b=0.75)
    index.index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)

    def search(question):
        tokens = bm25s.tokenize([question], stopwords="en", show_progress=False)
        found, scores = index.retrieve(tokens, k=min(MOST, len(texts)), show_progress=False)
        return {int(at): float(score) for at, score in zip(found[0], scores[0]) if score > 0}

    return search


def main():
    folder = Path(sys.argv[1])
    texts = json.loads((folder / "texts.json").read_text())
    questions = json.loads((folder / "questions.json").read_text())
    vectors = np.fromfile(folder / "vectors.f32", dtype=np.float32).reshape(len(texts), -1)
    question_vectors = np.fromfile(folder / "questions.f32", dtype=np.float32).reshape(len(questions), -1)
    peers = []
    try:
        import bm25s  # noqa: F401

        makers = [("Python: bm25s and numpy", by_bm25s), ("Python: sqlite3 FTS5 and numpy", by_fts5)]
    except ImportError:
        makers = [("Python: sqlite3 FTS5 and numpy", by_fts5)]
    for name, make in makers:
        began = time.perf_counter()
        search = make(texts)
        peers.append(timed(name, began, search, questions, question_vectors, vectors))
    print(json.dumps(peers))


if __name__ == "__main__":
    main()
