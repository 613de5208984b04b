"""Measures a peer for perf's `embed`: claims as a JSON list on stdin, results as JSON on stdout.

    python perf/peers/minilm_peer.py PEER MODEL_DIR WORK_DIR < claims.json

PEER is `torch` (sentence-transformers), `onnx` or `onnx-int8`: ONNX Runtime with the model exported from the same
weights, the second one with dynamic quantization (`onnxruntime.quantization`, int8 weights per channel). The exported
files are written to WORK_DIR once. `tokens` prints the token ids of the texts instead, from Hugging Face's tokenizers.
"""
import json
import os
import resource
import subprocess
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
peer, directory, work = sys.argv[1:4]
is_cold = len(sys.argv) > 4 and sys.argv[4] == "cold"


def open_torch(threads):
    import torch
    from sentence_transformers import SentenceTransformer

    if threads:
        torch.set_num_threads(threads)
    model = SentenceTransformer(directory, device="cpu")

    def encode(texts, batch):
        return model.encode(texts, batch_size=batch, normalize_embeddings=True, show_progress_bar=False)

    return encode


def export():
    """Writes the ONNX files, with pooling and normalization left to numpy, as usual."""
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from transformers import AutoModel

    plain = os.path.join(work, "model.onnx")
    model = AutoModel.from_pretrained(directory, attn_implementation="eager").eval()

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids, mask):
            return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

    ids = torch.ones((2, 9), dtype=torch.int64)
    axes = {0: "batch", 1: "tokens"}
    torch.onnx.export(
        Encoder(), (ids, ids), plain, input_names=["ids", "mask"], output_names=["hidden"],
        dynamic_axes={"ids": axes, "mask": axes, "hidden": axes}, opset_version=17, dynamo=False,
    )
    quantize_dynamic(plain, os.path.join(work, "model-int8.onnx"), weight_type=QuantType.QInt8, per_channel=True)


def open_tokenizer():
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(os.path.join(directory, "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    return tokenizer


def open_onnx(threads):
    import numpy as np
    import onnxruntime

    file = os.path.join(work, "model.onnx" if peer == "onnx" else "model-int8.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    tokenizer = open_tokenizer()
    tokenizer.enable_padding()

    def encode(texts, batch):
        # Sorted by length, as sentence-transformers does, so that batches have little padding.
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        vectors = np.empty((len(texts), 384), dtype=np.float32)
        for start in range(0, len(texts), batch):
            chosen = order[start : start + batch]
            encoded = tokenizer.encode_batch([texts[i] for i in chosen])
            ids = np.array([e.ids for e in encoded], dtype=np.int64)
            mask = np.array([e.attention_mask for e in encoded], dtype=np.int64)
            (hidden,) = session.run(None, {"ids": ids, "mask": mask})
            mean = (hidden * mask[:, :, None]).sum(1)
            vectors[chosen] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return vectors

    return encode


def open_peer(threads):
    return open_torch(threads) if peer == "torch" else open_onnx(threads)


def speed(encode, texts, batch):
    """Best round within at least 8 seconds, as in `embed`."""
    best_cpu = best_wall = 0.0
    begin = time.perf_counter()
    while True:
        wall, cpu = time.perf_counter(), time.process_time()
        if batch == 1:
            for text in texts:
                encode([text], 1)
        else:
            encode(texts, batch)
        best_cpu = max(best_cpu, len(texts) / (time.process_time() - cpu))
        best_wall = max(best_wall, len(texts) / (time.perf_counter() - wall))
        if time.perf_counter() - begin >= 8:
            return best_cpu, best_wall


def main():
    if is_cold:
        open_peer(1)(["a cold start ends with a vector"], 1)
        return
    claims = json.load(sys.stdin)
    if peer == "tokens":
        tokenizer = open_tokenizer()
        json.dump([tokenizer.encode(text).ids for text in claims], sys.stdout)
        return
    if peer != "torch" and not os.path.exists(os.path.join(work, "model-int8.onnx")):
        # Another process, so that the memory of the export does not count.
        subprocess.run(
            [sys.executable, "-c", "import runpy, sys; sys.argv = sys.argv[1:]; "
             "runpy.run_path(sys.argv[0], run_name='export')['export']()", __file__, *sys.argv[1:4]],
            check=True, stdout=subprocess.DEVNULL,
        )
    starts = []
    for _ in range(3):
        begin = time.perf_counter()
        subprocess.run([sys.executable, __file__, *sys.argv[1:4], "cold"], check=True, stdout=subprocess.DEVNULL)
        starts.append(time.perf_counter() - begin)
    # With the default number of threads, and with one thread, which avoids spinning workers; the better result counts.
    results = []
    for threads in (0, 1):
        encode = open_peer(threads)
        encode(claims[:32], 32)
        results.append(speed(encode, claims, 32) + speed(encode, claims[: len(claims) // 4], 1))
    batch_cpu, batch_wall, single_cpu, single_wall = (max(column) for column in zip(*results))
    vectors = encode(claims[:400], 32)
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


if __name__ == "__main__":
    main()
