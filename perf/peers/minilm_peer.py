"""Measures sentence-transformers for perf's `embed`: claims as a JSON list on stdin, results as JSON on stdout.

    python perf/peers/minilm_peer.py MODEL_DIR < claims.json
"""
import json
import os
import resource
import subprocess
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"
directory = sys.argv[1]

if len(sys.argv) > 2 and sys.argv[2] == "cold":
    from sentence_transformers import SentenceTransformer

    SentenceTransformer(directory, device="cpu").encode(["a cold start ends with a vector"])
    sys.exit()

claims = json.load(sys.stdin)
starts = []
for _ in range(3):
    begin = time.perf_counter()
    subprocess.run([sys.executable, __file__, directory, "cold"], check=True, stdout=subprocess.DEVNULL)
    starts.append(time.perf_counter() - begin)

import torch
from sentence_transformers import SentenceTransformer

model = SentenceTransformer(directory, device="cpu")
model.encode(claims[:32])


def speed(texts, batch):
    """Best round within at least 15 seconds, as in `embed`."""
    best_cpu = best_wall = 0.0
    begin = time.perf_counter()
    while True:
        wall, cpu = time.perf_counter(), time.process_time()
        if batch == 1:
            for text in texts:
                model.encode([text], normalize_embeddings=True)
        else:
            model.encode(texts, batch_size=batch, normalize_embeddings=True, show_progress_bar=False)
        best_cpu = max(best_cpu, len(texts) / (time.process_time() - cpu))
        best_wall = max(best_wall, len(texts) / (time.perf_counter() - wall))
        if time.perf_counter() - begin >= 15:
            return best_cpu, best_wall


# With the default number of threads, and with one thread, which avoids spinning workers; the better result counts.
results = []
for threads in (torch.get_num_threads(), 1):
    torch.set_num_threads(threads)
    results.append(speed(claims, 32) + speed(claims[: len(claims) // 4], 1))
batch_cpu, batch_wall, single_cpu, single_wall = (max(column) for column in zip(*results))
vectors = model.encode(claims[:400], normalize_embeddings=True)
json.dump(
    {
        "batch_cpu": batch_cpu,
        "batch_wall": batch_wall,
        "single_cpu": single_cpu,
        "single_wall": single_wall,
        "cold_start": sorted(starts)[len(starts) // 2],
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "vectors": [[float(value) for value in vector] for vector in vectors],
    },
    sys.stdout,
)
