"""MinHash with locality-sensitive hashing (datasketch), 128 permutations, candidates checked exactly.

Arguments: a file with one claim per line, a threshold. Prints a JSON object for each size. The method is approximate: its
recall is the share of the exact repeats that it reports.
"""

import json
import sys
import time

from datasketch import MinHash, MinHashLSH


def run(claims, threshold):
    lsh = MinHashLSH(threshold=threshold, num_perm=128)
    seen, repeats = [], 0
    start = time.process_time()
    for number, claim in enumerate(claims):
        words = set(claim.lower().rstrip(".!?").split())
        sketch = MinHash(num_perm=128)
        sketch.update_batch([word.encode() for word in words])
        best = 0.0
        for candidate in lsh.query(sketch):
            other = seen[candidate]
            best = max(best, len(words & other) / len(words | other))
        repeats += best >= threshold
        lsh.insert(number, sketch)
        seen.append(words)
    return time.process_time() - start, repeats


def main():
    claims = open(sys.argv[1], encoding="utf-8").read().split("\n")
    threshold = float(sys.argv[2])
    for size in (1_000, 10_000, 100_000):
        seconds, repeats = run(claims[:size], threshold)
        line = dict(name="datasketch MinHash LSH", claims=size, per_cpu_second=size / seconds, repeats=repeats,
                    note="approximate")
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
