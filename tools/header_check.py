#!/usr/bin/env python3
"""Compiles each header under src alone, included twice, with the flags of its module in a configured build folder.

usage: header_check.py BUILD_FOLDER
"""

import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def flags_by_module(build):
    """(module, is a test) -> compiler and flags of one such source, without the source, the output and the cache."""
    found = {}
    for command in json.loads((build / "compile_commands.json").read_text()):
        path = Path(command["file"])
        if not path.is_relative_to(ROOT / "src") or path.name.endswith(("_fuzz.cc", "_bench.cc")):
            continue
        words = shlex.split(command["command"])
        if Path(words[0]).name == "ccache":
            words = words[1:]
        keep, skip = [], False
        for word in words:
            if skip or word in ("-o", "-MF", "-MT", "-MQ", "-c") or word == str(path):
                skip = word in ("-o", "-MF", "-MT", "-MQ") and not skip
                continue
            if word != "-MD":
                keep.append(word)
        module = path.relative_to(ROOT / "src").parts[0]
        found[module, path.name == "test.cc" or path.name.endswith("_test.cc")] = keep
    return found


def flags_for(header, known):
    """A header for tests sees what tests see. A module of headers only has no command of its own: app's flags know
    every include folder.
    """
    module = header.relative_to(ROOT / "src").parts[0]
    is_test = header.name.endswith("_test_impl.h")
    return known.get((module, is_test)) or known.get((module, not is_test)) or known["app", False]


def check(header, flags):
    name = header.relative_to(ROOT / "src")
    unit = f'#include "{name}"\n#include "{name}"\n'
    done = subprocess.run(
        [*flags, "-fsyntax-only", "-x", "c++", "-"], input=unit, capture_output=True, text=True, check=False
    )
    return name, done.returncode, done.stderr


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    known = flags_by_module(Path(sys.argv[1]).resolve())
    headers = sorted((ROOT / "src").rglob("*.h"))
    tasks = [(header, flags_for(header, known)) for header in headers]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda task: check(*task), tasks))
    failed = [result for result in results if result[1] != 0]
    for name, _, errors in failed:
        print(f"src/{name} does not compile alone:\n{errors}")
    print(f"header_check: {len(headers)} headers, {len(failed)} do not compile alone")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
