"""A tokenizer.json of one token per byte, whose id is the byte, and the control tokens of the
model's format behind them, so that tests can count tokens by looking. It is the cut tokenizer of
tests/golden with other tokens.
"""

import functools
import json
from pathlib import Path

_CUT = Path(__file__).resolve().parents[1] / "golden" / "tokenizer" / "tokenizer.json"
_SHOWN = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]  # spelled as themselves


def _spellings():
    """How a byte-level vocabulary spells each byte."""
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in _SHOWN else chr(next(others)) for byte in range(256)]


@functools.cache
def text():
    tokenizer = json.loads(_CUT.read_text(encoding="utf-8"))
    tokenizer["model"]["merges"] = []
    tokenizer["model"]["vocab"] = {spelling: byte for byte, spelling in enumerate(_spellings())}
    for i, token in enumerate(sorted(tokenizer["added_tokens"], key=lambda token: token["id"])):
        token["id"] = 256 + i
    return json.dumps(tokenizer, ensure_ascii=False)
