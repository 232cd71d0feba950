#!/usr/bin/env python3
"""Makes the mistakes of mutations.txt one by one, in a copy of the tree, and demands that a test notices each.

    tools/mutate.py [NAME...]     all mutations, or those whose first line contains one of the names

The copy and its build lie in build/mutate and are kept, so that a second run compiles only what changed. For developers;
CI does not run it. Prints one line per mutation:

    caught    the named test fails with the mistake and passes without it
    SURVIVED  the test passes although the mistake was made: it needs to look closer
    BROKEN    the text to replace is not there exactly once (line breaks do not matter), the mistake does not compile, or the filter names no test

and "N caught, M survived, K broken". Exits 1 unless all were caught.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "build" / "mutate" / "tree"
OUT = ROOT / "build" / "mutate" / "out"
TEST_SECONDS = 600  # a mistake may make a test hang, which is noticed, too


@dataclass
class Edit:
    path: str
    old: list = field(default_factory=list)
    new: list = field(default_factory=list)


@dataclass
class Mutation:
    name: str
    binary: str
    tests: str  # gtest filter
    edits: list = field(default_factory=list)


def parse(text):
    """Blocks between empty lines: name; test binary and filter; then per edit a file, its - and its + lines."""
    mutations = []
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.split("\n") if line and not line.startswith("#")]
        if not lines:
            continue
        binary, tests = lines[1].split(" ", 1)
        mutation = Mutation(lines[0], binary, tests)
        for line in lines[2:]:
            if line[0] == "-" and mutation.edits[-1].new:
                mutation.edits.append(Edit(mutation.edits[-1].path))
            if line[0] == "-":
                mutation.edits[-1].old.append(line[1:])
            elif line[0] == "+":
                mutation.edits[-1].new.append(line[1:])
            else:
                mutation.edits.append(Edit(line))
        mutations.append(mutation)
    return mutations


def sync():
    """The copy gets what git would commit; files that are equal keep their time and are not compiled again."""
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        capture_output=True, text=True, check=True,
    )
    paths = {path for path in listed.stdout.split("\0") if path and (ROOT / path).is_file()}
    for path in paths:
        source, target = ROOT / path, TREE / path
        if target.is_file() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    for target in [p for p in TREE.rglob("*") if p.is_file()]:
        if str(target.relative_to(TREE)) not in paths:
            target.unlink()


def run(command, **more):
    environment = {**os.environ, "CCACHE_BASEDIR": str(TREE), "CCACHE_NOHASHDIR": "1"}
    return subprocess.run(command, cwd=TREE, env=environment, capture_output=True, text=True, errors="replace", check=False, **more)


def build(targets):
    """The compiler's complaint, or nothing."""
    done = run(["ninja", "-C", OUT, "-j1", *sorted(targets)])
    return "" if done.returncode == 0 else done.stdout[-4000:]


def configure():
    # Compiling is most of the time, and the operators have an optimisation level of their own.
    flags = "-DCMAKE_CXX_FLAGS_DEBUG=-O0 -D_GLIBCXX_ASSERTIONS"
    done = run(["cmake", "-S", TREE, "-B", OUT, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", flags])
    if done.returncode != 0:
        sys.exit(f"cmake failed:\n{done.stderr}")


def failures(mutation):
    """Names of the mutation's tests that fail; None if no test has such a name."""
    command = [OUT / "src" / mutation.binary, f"--gtest_filter={mutation.tests}"]
    if not re.search(r"^  ", run([*command, "--gtest_list_tests"]).stdout, re.M):
        return None
    try:
        done = run(command, timeout=TEST_SECONDS)
    except subprocess.TimeoutExpired:
        return ["it does not end"]
    if done.returncode == 0:
        return []
    return sorted(set(re.findall(r"\[  FAILED  \] ([\w/]+\.[\w/]+)", done.stdout))) or ["it crashes"]


def pattern(lines):
    """Finds the lines however clang-format breaks them."""
    tokens = re.findall(r"\w+|[^\w\s]", "\n".join(lines))
    return re.compile(r"\s*".join(re.escape(token) for token in tokens))


def apply(mutation):
    """Changes the copy; gives the texts of before by path, or why it cannot be done."""
    before = {}
    for edit in mutation.edits:
        path = TREE / edit.path
        text = path.read_text(encoding="utf-8")
        before.setdefault(path, text)
        found = list(pattern(edit.old).finditer(text))
        if len(found) != 1:
            restore(before)
            return None, f"{edit.path} has the text {len(found)} times: {' '.join(edit.old).strip()}"
        path.write_text(text[:found[0].start()] + "\n".join(edit.new) + text[found[0].end():], encoding="utf-8")
    return before, ""


def restore(before):
    for path, text in before.items():
        path.write_text(text, encoding="utf-8")


def judge(mutation):
    before, problem = apply(mutation)
    if before is None:
        return "BROKEN", problem
    try:
        if problem := build([mutation.binary]):
            return "BROKEN", problem
        failed = failures(mutation)
    finally:
        restore(before)
    return ("caught", ", ".join(failed)) if failed else ("SURVIVED", mutation.tests)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    mutations = parse((ROOT / "tools" / "mutations.txt").read_text(encoding="utf-8"))
    if arguments.names:
        mutations = [m for m in mutations if any(name in m.name for name in arguments.names)]

    sync()
    configure()
    if problem := build({m.binary for m in mutations}):
        sys.exit(f"the tree does not build:\n{problem}")
    count = {"caught": 0, "SURVIVED": 0, "BROKEN": 0}
    for mutation in mutations:
        # The build of the mistake before is undone by the next one; other files are as they were.
        begin = time.monotonic()
        verdict, detail = judge(mutation)
        count[verdict] += 1
        print(f"{verdict:8}  {mutation.name}  [{detail}]  {time.monotonic() - begin:.0f} s", flush=True)

    build({m.binary for m in mutations})
    for tests in sorted({(m.binary, m.tests) for m in mutations}):
        if failed := failures(Mutation("", *tests)):
            sys.exit(f"without any mistake fails, too: {', '.join(failed)}")
    print(f"{count['caught']} caught, {count['SURVIVED']} survived, {count['BROKEN']} broken")
    return 0 if count["caught"] == len(mutations) else 1


if __name__ == "__main__":
    sys.exit(main())
