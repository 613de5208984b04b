"""Writes the reference values that satiety-models' tests compare with.

    pip install sentence-transformers
    python perf/peers/minilm_reference.py MODEL_FOLDER crates/satiety-models/tests/it

MODEL_FOLDER holds the f32 all-MiniLM-L6-v2 (see crates/satiety-models/assets/NOTICE). Writes reference.json: token
ids, the first 16 components and all pair cosines of the sentences below, from sentence-transformers; and tiny/: a
randomly initialised encoder of odd sizes in the same layout with its own vectors, for tests that need no download.
"""
import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel

SENTENCES = [
    "",
    " \t\r\n ",
    "a",
    "The quick brown fox jumps over the lazy dog.",
    "A fast, dark-coloured fox leaps above a sleepy hound.",
    "The server handles 10,000 requests per second.",
    "The server handles 1,000 requests per second.",
    "The server does not handle 10,000 requests per second.",
    "Revenue grew 12.5% to $3.4M in Q3 2025 (vs. -2% in Q2).",
    "Add an index on orders.customer_id; p99 latency drops from 840ms to 95ms.",
    "We should cache the results of the expensive query in Redis for five minutes.",
    "Store the costly query's results in Redis with a five-minute time to live.",
    "The deployment is blocked until the security team signs off.",
    "Nothing blocks the deployment any more: security has signed off.",
    "fn main() { println!(\"Hello, {}!\", name); }",
    "SELECT id, name FROM users WHERE created_at > '2024-01-01' ORDER BY id DESC LIMIT 10;",
    "https://example.org/path/to/page?query=value&other=1#fragment",
    "user.name+tag@example.com wrote to <postmaster@example.org>",
    "Café, naïve, résumé, jalapeño, Zürich, Ångström, Škoda, Đorđe.",
    "cafe\u0301 with a combining accent and cafe\u0301s",
    "İstanbul, ISTANBUL, ıstanbul; Straße, STRASSE; ﬁnance with a ligature",
    "Привет, мир! Как дела сегодня?",
    "Γειά σου Κόσμε, τι κάνεις; ΑΣΣΟΣ",
    "你好,世界。今天天气很好!",
    "東京タワーは1958年に完成しました。",
    "안녕하세요, 만나서 반갑습니다.",
    "مرحبا بالعالم، كيف حالك اليوم؟",
    "שלום עולם, מה שלומך?",
    "नमस्ते दुनिया, आप कैसे हैं?",
    "สวัสดีชาวโลก",
    "Emoji: 👍🏽 🚀 👩‍👩‍👧 ❤️ and flags 🇩🇪🇫🇷",
    "Typographic “quotes”, ‘single’, dashes – — and ellipsis… and • bullets",
    "zero\u200bwidth\u200djoiner soft\u00adhyphen no\u00a0break line\u2028separator bell\u0007 null\u0000 \ufffd end",
    "x² + y² = z², ∑ᵢ aᵢ ≤ ∞, √2 ≈ 1.41421, ½ cup, № 5, ™ ® ©",
    "supercalifragilisticexpialidocious antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "a" * 100,
    "a" * 101,
    "donaudampfschifffahrtsgesellschaftskapitaen" * 3,
    "snake_case_name camelCaseName kebab-case-name SCREAMING_CASE path/to/file.rs C++ C# .NET",
    "0x7fff5fbff8c0 deadbeef 3.14159e-10 1_000_000 12:34:56 2024-02-29T23:59:59Z",
    "!!! ??? ... --- *** ### $$$ %%% ^^^ &&& ~~~ ``` |||",
    "don't can't won't it's I'm you're they've O'Neill rock'n'roll",
    "The    text   has \t odd \n\n spacing   .",
    "UPPER CASE SHOUTING ABOUT THE BUDGET",
    "upper case shouting about the budget",
    "The patient was given 5 mg of the drug twice daily for ten days and recovered fully.",
    "After ten days on two 5 mg doses a day, the patient had made a full recovery.",
    "In 1969 Apollo 11 landed two people on the Moon while a third stayed in orbit.",
    " ".join(f"Item {i}: the committee reviewed proposal {i * 7 % 31} and postponed it." for i in range(10)),
    " ".join(f"Item {i}: the committee reviewed proposal {i * 7 % 31} and postponed it." for i in range(60)),
    "word " * 254,
    "word " * 300,
    "The loop converged after three rounds; another round is unlikely to add anything new.",
    "Further iterations will hardly bring new insight, since three rounds were enough to converge.",
    "Bananas are rich in potassium.",
]


def numbers(values, digits):
    return [float(f"{value:.{digits}f}") for value in values]


def main(model_folder, out):
    model = SentenceTransformer(model_folder, device="cpu")
    vectors = model.encode(SENTENCES, normalize_embeddings=True, batch_size=1).astype(np.float64)
    tokenizer = Tokenizer.from_file(os.path.join(model_folder, "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    cosines = vectors @ vectors.T
    rows = [
        {
            "text": text,
            "tokens": tokenizer.encode(text).ids,
            "components": numbers(vectors[i, :16], 7),
            "cosines_with_earlier": numbers(cosines[i, :i], 6),
        }
        for i, text in enumerate(SENTENCES)
    ]
    with open(os.path.join(out, "reference.json"), "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    tiny(os.path.join(out, "tiny"))


def tiny(folder):
    """Sizes that are not multiples of 16, so that every edge case of the kernels is used."""
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=60, hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=50,
        max_position_embeddings=24, initializer_range=0.3,
    )
    model = BertModel(config, add_pooling_layer=False).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.2)
    os.makedirs(folder, exist_ok=True)
    model.save_pretrained(folder)
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + letters + ["##" + c for c in letters] + ["the", "##ing", ".", "!"]
    with open(os.path.join(folder, "vocab.txt"), "w") as file:
        file.write("".join(piece + "\n" for piece in vocabulary))
    index = {piece: i for i, piece in enumerate(vocabulary)}
    texts = {"": [], "a b c": ["a", "b", "c"], "the abing.": ["the", "a", "##b", "##ing", "."],
             "zebra!": ["z", "##e", "##b", "##r", "##a", "!"], "a " * 30: ["a"] * 22}
    rows = []
    for text, pieces in texts.items():
        ids = [index["[CLS]"]] + [index[piece] for piece in pieces] + [index["[SEP]"]]
        with torch.no_grad():
            hidden = model(torch.tensor([ids])).last_hidden_state[0].double().numpy()
        mean, cls = hidden.mean(0), hidden[0]
        rows.append({"text": text, "tokens": ids, "mean": numbers(mean / np.linalg.norm(mean), 7),
                     "cls": numbers(cls / np.linalg.norm(cls), 7)})
    with open(os.path.join(folder, "reference.json"), "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


main(*sys.argv[1:])
