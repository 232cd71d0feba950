#!/usr/bin/env python3
"""Objects of kernels for one instruction set define no weak symbol: the linker could take it for code that runs on every machine.

usage: isa_check.py BUILD_FOLDER
"""

import subprocess
import sys
from pathlib import Path

ISAS = ("avx2", "avx512", "avx512bf16")


def weak_symbols(path):
    done = subprocess.run(["nm", "--demangle", "--defined-only", str(path)], capture_output=True, text=True, check=True)
    lines = (line.split(maxsplit=2) for line in done.stdout.splitlines())
    return [line[2] for line in lines if len(line) == 3 and line[1] in "WVvwu"]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    objects = [path for isa in ISAS for path in Path(sys.argv[1]).glob(f"src/CMakeFiles/kernels.dir/kernels/*/{isa}.cc.o")]
    if not objects:
        sys.exit(f"isa_check: no such objects below {sys.argv[1]}")
    found = [(path, symbol) for path in sorted(objects) for symbol in weak_symbols(path)]
    for path, symbol in found:
        print(f"{path.parent.name}/{path.name}: weak symbol {symbol}")
    print(f"isa_check: {len(objects)} objects, {len(found)} weak symbols")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
