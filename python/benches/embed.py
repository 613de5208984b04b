"""Sentence embeddings against sentence-transformers with the f32 weights of the same model."""

from __future__ import annotations

import argparse
import importlib

import satiety
from _measure import cpu_seconds, report

WORDS = "the agent reads a file and finds that the cache is cold after every deploy, so it warms it from a log"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--model", default="sentence-transformers/all-MiniLM-L6-v2", help="directory of the f32 model")
    arguments = parser.parse_args()
    count = arguments.sentences
    words = WORDS.split()
    texts = [" ".join(words[(start + step) % len(words)] for step in range(8 + start % 9)) for start in range(count)]
    model = satiety.Embedder()
    model.encode(texts[:32])
    print(f"{count} sentences of 8 to 16 words; CPU time")
    rows = [("satiety.Embedder.encode", cpu_seconds(lambda: model.encode(texts)))]
    single = [
        ("satiety.Embedder.encode, one by one", cpu_seconds(lambda: [model.encode(text) for text in texts[:100]]))
    ]
    try:
        peers = importlib.import_module("sentence_transformers")
    except ImportError:
        print("sentence-transformers is not installed")
    else:
        peer = peers.SentenceTransformer(arguments.model, device="cpu")
        peer.encode(texts[:32])
        rows.append(("sentence-transformers", cpu_seconds(lambda: peer.encode(texts))))
        one = cpu_seconds(lambda: [peer.encode(text) for text in texts[:100]])
        single.append(("sentence-transformers, one by one", one))
    report(rows)
    report(single)


if __name__ == "__main__":
    main()
