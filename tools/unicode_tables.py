#!/usr/bin/env python3
"""Writes src/token/unicode_tables.inc from tools/unicode16_ranges.json: python3 tools/unicode_tables.py

The ranges are those of Unicode 16.0, the version the released tokenizer was trained and is run with; a later one gives
other ids (spec recipe.md §10). P and S are one class, since no rule tells them apart.
"""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLASSES = {"L": "kLetter", "M": "kMark", "N": "kNumber", "P": "kSymbol", "S": "kSymbol", "White_Space": "kSpace"}
HEAD = """\
// Made by tools/unicode_tables.py from tools/unicode16_ranges.json (Unicode 16.0); not edited.
// {first, last, class}, ascending; what is not listed has no class.
"""


def merged(properties):
    """[first, last, class], ascending; neighbours of one class are one range."""
    ranges = sorted((first, last, CLASSES[name]) for name, listed in properties.items() for first, last in listed)
    result = []
    for first, last, name in ranges:
        assert not result or result[-1][1] < first, f"U+{first:04X} has two classes"
        if result and result[-1][1] == first - 1 and result[-1][2] == name:
            result[-1] = (result[-1][0], last, name)
        else:
            result.append((first, last, name))
    return result


def main():
    properties = json.loads((ROOT / "tools/unicode16_ranges.json").read_text(encoding="utf-8"))
    lines = [f"{{0x{first:04X}, 0x{last:04X}, {name}}},\n" for first, last, name in merged(properties)]
    (ROOT / "src/token/unicode_tables.inc").write_text(HEAD + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
