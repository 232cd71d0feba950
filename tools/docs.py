#!/usr/bin/env python3
"""Brings the generated tables of docs/operations.md up to date, or with --check says whether they are.

  metrics  from src/base/metrics.def and the label lists in src/base/metrics.h
  options  from `sluice config docs` of the given binary (default: the dev build)
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_LABEL_VALUES = re.compile(r"#define SLUICE_(\w+)_VALUES\(X\)((?:.*\\\n)*.*)")
_LABEL = re.compile(r'^SLUICE_LABEL\((\w+), "(\w+)", SLUICE_(\w+)_VALUES\)', re.M)
_METRIC = re.compile(
    r'SLUICE_METRIC\(\s*(\w+),\s*(\w+),\s*"(\w+)",\s*"(\w+)",\s*\(([^)]*)\),\s*"((?:[^"\\]|\\.)*)"\s*\)'
)


def labels(header):
    """Label type -> "name: value value"."""
    values = {m[1]: re.findall(r'X\(\w+, "([^"]+)"\)', m[2]) for m in _LABEL_VALUES.finditer(header)}
    return {m[1]: (m[2], values.get(m[3], [])) for m in _LABEL.finditer(header)}


def metrics(definitions):
    """(kind, constant, name, unit, label types, sentence) of each line."""
    found = []
    for m in _METRIC.finditer(definitions):
        types = [t.strip() for t in m[5].split(",") if t.strip()]
        found.append((m[1], m[2], m[3], m[4], types, m[6]))
    return found


def metrics_table(root):
    header = (root / "src/base/metrics.h").read_text()
    known = labels(header)
    rows = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for kind, _, name, _, types, sentence in metrics((root / "src/base/metrics.def").read_text()):
        kind = "histogram" if kind.endswith("Histogram") else kind.lower()
        text = "; ".join(f"`{known[t][0]}`: {', '.join(known[t][1])}" for t in types)
        rows.append(f"| `sluice_{name}` | {kind} | {text} | {sentence} |")
    return "\n".join(rows)


def replace_block(text, name, body):
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if begin not in text or end not in text:
        raise SystemExit(f"docs/operations.md: no block {name}")
    head, rest = text.split(begin, 1)
    tail = rest.split(end, 1)[1]
    return f"{head}{begin}\n{body.strip()}\n{end}{tail}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("binary", nargs="?", default=ROOT / "build/dev/src/app/sluice")
    args = parser.parse_args()

    path = ROOT / "docs/operations.md"
    old = path.read_text()
    done = subprocess.run([args.binary, "config", "docs"], capture_output=True, text=True, check=True)
    new = replace_block(old, "metrics", metrics_table(ROOT))
    new = replace_block(new, "options", done.stdout)
    if args.check and new != old:
        sys.exit("docs/operations.md is behind the program; run: python3 tools/docs.py")
    if new != old:
        path.write_text(new)


if __name__ == "__main__":
    main()
