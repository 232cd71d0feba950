"""A tokenizer.json of one token per byte, whose id is the byte, and the control tokens of the
model's format behind them, so that tests can count tokens by looking. It is the cut tokenizer of
tests/golden with other tokens.
"""

import functools
import json
from pathlib import Path

# Tokens of a prompt with one user message besides its text: begin, user, assistant and the mark of thinking; while
# thinking, system and the line of the effort, too.
PLAIN_FRAME = 4
FRAME = 5 + len(
    "Reasoning Effort: 75 (range 1-100, the higher the value, the more thorough the reasoning)\n\n"
)

_CUT = Path(__file__).resolve().parents[1] / "golden" / "tokenizer" / "tokenizer.json"
_SHOWN = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]  # spelled as themselves


def _spellings():
    """How a byte-level vocabulary spells each byte."""
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in _SHOWN else chr(next(others)) for byte in range(256)]


@functools.cache
def text(n_tokens=0):
    """`n_tokens`: with tokens of no meaning up to that many."""
    tokenizer = json.loads(_CUT.read_text(encoding="utf-8"))
    tokenizer["model"]["merges"] = []
    tokenizer["model"]["vocab"] = {spelling: byte for byte, spelling in enumerate(_spellings())}
    for i, token in enumerate(sorted(tokenizer["added_tokens"], key=lambda token: token["id"])):
        token["id"] = 256 + i
    added = tokenizer["added_tokens"]
    while 256 + len(added) < n_tokens:
        added.append(added[-1] | {"id": 256 + len(added), "content": f"<|nothing_{len(added)}|>"})
    return json.dumps(tokenizer, ensure_ascii=False)


@functools.cache
def control(spelling):
    """The id of a control token."""
    return next(t["id"] for t in json.loads(text())["added_tokens"] if t["content"] == spelling)


def plain_prompt(words):
    """The tokens of a prompt without thinking: one user message."""
    begin, user, assistant, end = map(
        control, ("<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "</think>")
    )
    return [begin, user, *words.encode(), assistant, end]


def spoken(ids, n_tokens):
    """What a client reads of these tokens of a model with so many, where stray control tokens are shown."""
    shown = {t["id"]: t["content"].encode() for t in json.loads(text(n_tokens))["added_tokens"]}
    shown[control("</think>")] = b""
    return b"".join(bytes([i]) if i < 256 else shown[i] for i in ids).decode(errors="replace")
