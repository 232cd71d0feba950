#!/usr/bin/env python3
"""Writes cases.jsonl beside a tokenizer.json: python3 tools/tokenizer_cases.py FOLDER GOLDEN_RECIPE

GOLDEN_RECIPE is the folder of the full cases (`golden/recipe` of the specification notes). Texts are a part of its texts,
ids and texts come from the published codec package (deepseek-recipe 0.2.0) with the tokenizer of FOLDER; none comes
from this program. The sweep is every code point as " ", the character, "x", line feed; its ids as a digest.
"""

import hashlib
import json
import struct
import sys
from pathlib import Path

FOLDER, RECIPE = Path(sys.argv[1]), Path(sys.argv[2])
sys.path.insert(0, str(RECIPE))
sys.dont_write_bytecode = True
import golden_lib as golden  # noqa: E402

golden.TOK = golden.R.Tokenizer.from_str((FOLDER / "tokenizer.json").read_text(encoding="utf-8"))
golden.ENC = golden.R.DeepseekV41Encoding().with_special_tokens(golden.SPECIALS).with_tokenizer(golden.TOK)

WHOLE = ("empty", "script", "added", "added-ctx", "added-cut", "code", "edge")
SHORT_RUNS = (1, 2, 3, 4, 5, 8, 17)
SWEEP_STEP = 0x1000


def is_kept(name):
    group, _, index = name.partition("/")
    if group.startswith(("random", "cp")):
        return int(index, 16) % 8 == 0
    return group in WHOLE or (index.isdigit() and int(index) in SHORT_RUNS and "-" not in group.removeprefix("code-"))


def encode_cases(records):
    for record in records:
        if record["kind"] == "encode" and is_kept(record["name"]) and len(record["text"]) <= 400:
            yield golden.tokenizer_case(record["name"], record["text"])


def decode_cases(records):
    """The same texts and cuts with the ids of this vocabulary."""
    for record in records:
        group, _, index = record["name"].partition("/")
        if record["kind"] != "decode" or group not in ("script", "split"):
            continue
        ids = golden.plain_ids(record["text"])
        yield golden.detok_case(record["name"], ids, record["chunking"])
        if group == "split" and index.endswith("/1"):
            for n in range(1, len(ids)):
                yield golden.detok_case(f"cut/{index}/{n}", ids[:n])
                yield golden.detok_case(f"tail/{index}/{n}", ids[n:])
    yield golden.detok_case("special/mixed", golden.TOK.encode("<｜User｜>Hello<｜Assistant｜><think>h</think>｜DSML｜"))
    emoji = golden.plain_ids("🏽")
    yield golden.detok_case("special/after-cut", emoji[:1] + golden.TOK.encode("</think>") + emoji[1:])


def sweep_cases():
    for first in [*range(0, 0x34000, SWEEP_STEP), 0xE0000, 0x10F000]:
        points = [c for c in range(first, first + SWEEP_STEP) if not 0xD800 <= c < 0xE000]
        if not points:
            continue
        ids = golden.plain_ids("".join(f" {chr(c)}x\n" for c in points))
        digest = hashlib.sha256(struct.pack(f"<{len(ids)}I", *ids)).hexdigest()
        yield {"kind": "sweep", "name": f"{first:X}", "first": first, "last": first + SWEEP_STEP - 1,
               "n_tokens": len(ids), "sha256": digest}


def main():
    text = (RECIPE / "tokenizer.jsonl").read_text(encoding="utf-8")
    records = [json.loads(line) for line in text.split("\n") if line]
    golden.write(FOLDER / "cases.jsonl", [*encode_cases(records), *decode_cases(records), *sweep_cases()])


if __name__ == "__main__":
    main()
