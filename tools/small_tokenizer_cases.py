#!/usr/bin/env python3
"""Writes the tokenizers and golden cases of the small models:
python3 tools/small_tokenizer_cases.py SMOLLM2.gguf tests/golden/tokenizer

SMOLLM2.gguf is SmolLM2-135M-Instruct. Its tokenizer is cut to the first merges (smollm2.json, and smollm2.gguf, which has
the metadata and no tensor); qwen2.json has the rules of Qwen2.5 (NFC, its pattern, its control tokens) over merges that
the package learns from the texts below, since no small file of that family has a free vocabulary. Ids come from the
package `tokenizers` (0.23.3) and never from this program; the GGUF is written with the package `gguf` (0.17).
"""

import hashlib
import json
import random
import struct
import sys
from pathlib import Path

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

MODEL, FOLDER = Path(sys.argv[1]), Path(sys.argv[2])
N_MERGES = 2600
QWEN_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_CONTROLS = (
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|> "
    "<|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|> "
    "<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|>"
).split()
QWEN_NOT_SPECIAL = QWEN_CONTROLS[14:]

TEXTS = [
    "",
    "Hello, world!",
    "The quick brown fox jumps over the lazy dog. It's 3 o'clock; we'll see, they've gone, I'm sure he'd know.",
    "IT'S WE'LL THEY'VE I'M HE'D YOU'RE DON'T a's' 'sword '' 'S",
    "def f(x):\n    return {'a': x[0], \"b\": None}  # comment\n\n\nclass A:\n\tpass\n",
    "for (int i = 0; i < 100; ++i) { sum += a[i] * b[i]; }\r\n\r\n#include <vector>\r\n",
    "1234567890 3.14159 1,000,000 0x1F600 ½ ² Ⅷ ٣٤ 三 १२३ a1b22c333",
    "  leading and trailing   \t\t tabs\t \n \n\n  mixed \r\n \r x\u00a0y\u2003z\u3000w\u2028v\u0085u",
    "🙂👩‍👩‍👧‍👦🏳️‍🌈🇫🇷 ❤️ 👍🏽 e\u0301 \u00e9 n\u0303o A\u030a \u212b \ufb01 \u1e9b\u0323 \u0344 q\u0307\u0323",
    "한국어 \u1112\u1161\u11ab 日本語のテキスト。 中文，标点：“引号”。 Русский текст, ёлка и\u0306. Ελληνικά ώ ω\u0301",
    "العربية مَرْحَبًا עברית שָׁלוֹם हिन्दी क\u093c \u0958 ไทย ภาษาไทย",
    "<|im_start|>system\nYou are<|im_end|>\n<|endoftext|><tool_call>\n{\"name\": \"f\"}\n</tool_call><tool_response>",
    "<|im_start|> <| im_end |> <|im_end <|im_end|>|> <file_sep><filename> <|fim_prefix|>",
    "{\"key\": [1, 2.5e-3, true, null, \"\\u00e9\\n\"], \"nested\": {\"a\": {}}}",
    "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x13\x14\x16\x1d\x1b[0m\x7f\x80\x9f\u00ad\u200b\u200d\ufeff\uffff",
    "\U00040000\U000f1234 \U0010ffff \ue000 x\u0378y \u0378 z",
    "a\u017fs 'ſ 'ſt K\u212a 'ﬅ ﬆ",
    "!!!??? ... ---- ==== //// **** #### @@ $$ %% ^^ && (( )) _ ` ~ |\n\n!!\r\n-- \n",
    "https://example.com/a/b?c=d&e=%20#f user@host.org C:\\path\\file.txt ../x",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" * 3,
    " " * 97 + "x" + "\n" * 33 + "y" + "\t" * 17,
    "Ǆǅǆ ªº ʰ ˇ ⅷ ⓐ 𝐀𝟘 𒀀 ꙮ ꜰ ʼn 'N ’s it’s",
]


def random_texts():
    """Characters of many kinds beside each other."""
    rng = random.Random(7)
    pool = "aZéßω ЖЁ  \n\r\t'sS1٣½²_-!?.,中あ한ก\u0301\u0323\u0307\u093c\u200d🙂\u00a0\u3000\u0378\u1100\u1161\u11a8"
    for n in range(60):
        yield "".join(rng.choice(pool) for _ in range(2 + n % 40))


def cut_smollm2(fields):
    tokens, merges = fields["tokens"], fields["merges"][:N_MERGES]
    n_controls = next(i for i, kind in enumerate(fields["types"]) if kind == 1)
    singles = [token for token in tokens[n_controls:] if len(token) == 1]
    kept = tokens[:n_controls] + singles
    seen = set(kept)
    for merge in merges:
        result = merge.replace(" ", "")
        if result not in seen:
            seen.add(result)
            kept.append(result)
    return kept, merges, n_controls


def smollm2_tokenizer(tokens, merges, n_controls):
    vocab = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(m.split(" ")) for m in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in tokens[:n_controls]])
    return tokenizer


def qwen2_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=1200, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXTS + list(random_texts()), trainer)
    for content in QWEN_CONTROLS:
        token = AddedToken(content, special=content not in QWEN_NOT_SPECIAL, normalized=False)
        (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
    return tokenizer


def write_gguf(path, fields, tokens, merges, n_controls):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(fields["name"])
    for key, value in fields["kept"].items():
        getattr(writer, "add_" + key)(value)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * n_controls + [1] * (len(tokens) - n_controls))
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def read_fields(path):
    reader = gguf.GGUFReader(path)
    field = lambda name: reader.fields[name].contents()
    return {
        "tokens": field("tokenizer.ggml.tokens"),
        "types": field("tokenizer.ggml.token_type"),
        "merges": field("tokenizer.ggml.merges"),
        "name": field("general.name"),
        "kept": {"basename": field("general.basename"), "size_label": field("general.size_label")},
    }


def encode_case(tokenizer, plain, name, text):
    case = {"kind": "encode", "name": name, "text": text, "ids": plain.encode(text, add_special_tokens=False).ids}
    added = tokenizer.encode(text, add_special_tokens=False).ids
    return case if added == case["ids"] else case | {"ids_added": added}


def without_added(tokenizer):
    """The same, for which no text is an added token."""
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = []
    return Tokenizer.from_str(json.dumps(data))


def sweep(plain):
    for first in [*range(0, 0x34000, 0x1000), 0xE0000]:
        points = [c for c in range(first, first + 0x1000) if not 0xD800 <= c < 0xE000]
        if not points:
            continue
        ids = plain.encode("".join(" " + chr(c) + "x\n" for c in points), add_special_tokens=False).ids
        digest = hashlib.sha256(struct.pack(f"<{len(ids)}i", *ids)).hexdigest()
        yield {
            "kind": "sweep",
            "name": f"{first:06x}",
            "first": first,
            "last": first + 0xFFF,
            "n_tokens": len(ids),
            "sha256": digest,
        }


def write_cases(tokenizer, path):
    plain = without_added(tokenizer)
    texts = [(f"text/{i}", text) for i, text in enumerate(TEXTS)]
    texts += [(f"random/{i}", text) for i, text in enumerate(random_texts())]
    records = [encode_case(tokenizer, plain, name, text) for name, text in texts]
    records += sweep(plain)
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for record in records:
            out.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")


def main():
    fields = read_fields(MODEL)
    tokens, merges, n_controls = cut_smollm2(fields)
    smollm2 = smollm2_tokenizer(tokens, merges, n_controls)
    (FOLDER / "smollm2.json").write_text(smollm2.to_str(), encoding="utf-8")
    write_gguf(FOLDER / "smollm2.gguf", fields, tokens, merges, n_controls)
    write_cases(smollm2, FOLDER / "smollm2_cases.jsonl")
    qwen2 = qwen2_tokenizer()
    (FOLDER / "qwen2.json").write_text(qwen2.to_str(), encoding="utf-8")
    write_cases(qwen2, FOLDER / "qwen2_cases.jsonl")
    whole = smollm2_tokenizer(fields["tokens"], fields["merges"], n_controls)
    plain = without_added(whole)
    records = [encode_case(whole, plain, f"text/{i}", text) for i, text in enumerate(TEXTS)]
    with (FOLDER / "smollm2_whole_cases.jsonl").open("w", encoding="utf-8", newline="\n") as out:
        for record in records:
            out.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")


main()
