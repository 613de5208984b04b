"""Pairwise loop: compares each claim's word set with those of all earlier claims and keeps the best match.

Arguments: a file with one claim per line, a threshold. Prints a JSON object for each size and variant. Two variants:
cached word sets, and words split again for every pair, as in a first implementation.
Sizes that would take too long are measured on their last claims and extrapolated: the mean claim costs half as much.
"""

import json
import re
import sys
import time


def normalize(claim):
    claim = re.sub(r"\s+", " ", claim.lower().strip())
    return claim.rstrip(".!?")


def jaccard(a, b):
    union = len(a | b)
    return len(a & b) / union if union else 0.0


def kept_sets(claims, measured, threshold):
    seen = [set(normalize(claim).split()) for claim in claims[: len(claims) - measured]]
    start, repeats = time.process_time(), 0
    for claim in claims[len(claims) - measured :]:
        words = set(normalize(claim).split())
        best = 0.0
        for other in seen:
            best = max(best, jaccard(words, other))
        repeats += best >= threshold
        seen.append(words)
    return time.process_time() - start, repeats


def split_per_pair(claims, measured, threshold):
    seen = [normalize(claim) for claim in claims[: len(claims) - measured]]
    start, repeats = time.process_time(), 0
    for claim in claims[len(claims) - measured :]:
        text = normalize(claim)
        best = 0.0
        for other in seen:
            best = max(best, jaccard(set(text.split()), set(other.split())))
        repeats += best >= threshold
        seen.append(text)
    return time.process_time() - start, repeats


def main():
    claims = open(sys.argv[1], encoding="utf-8").read().split("\n")
    threshold = float(sys.argv[2])
    for name, run, whole in [
        ("Python pairwise loop, word sets kept", kept_sets, 10_000),
        ("Python pairwise loop, words split per pair", split_per_pair, 1_000),
    ]:
        for size in (1_000, 10_000, 100_000):
            if size <= whole:
                seconds, repeats = run(claims[:size], size, threshold)
                rate, note = size / seconds, ""
            else:
                measured = 20 if size >= 100_000 else 100
                seconds, repeats = run(claims[:size], measured, threshold)
                rate, repeats = 2 * measured / seconds, None
                note = f"extrapolated from the last {measured} claims"
            line = dict(name=name, claims=size, per_cpu_second=rate, repeats=repeats, note=note)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
