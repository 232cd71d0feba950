#!/usr/bin/env python3
"""Checks the rules of ARCHITECTURE.md and STYLE.md. Prints file:line: rule: message and exits 1 if there are any.

tidy_tables.py holds the law where no document does; the include matrix, the state of modules and the hop table are read
from ARCHITECTURE.md. A line is excused by `// tidy: allow, reason` on it or above it, a function by
`// tidy: long-function, reason` in it or above it, a file by `// tidy: long-file, reason` in its head.
"""

import fnmatch
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import docs
from cpp_text import CppText
from tidy_tables import *  # noqa: F403  the law

@dataclass(frozen=True, order=True)
class Finding:
    path: str
    line: int
    rule: str
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


@dataclass
class Tree:
    root: Path
    texts: dict = field(init=False)  # path relative to root -> text
    cpp: dict = field(init=False)  # path relative to src -> CppText

    def __post_init__(self):
        self.texts = {}
        for path in sorted(self._paths()):
            if Path(path).suffix in TEXT_SUFFIXES:
                try:
                    self.texts[path] = (self.root / path).read_text(encoding="utf-8")
                except (UnicodeDecodeError, OSError):
                    continue
        self.cpp = {
            path[4:]: CppText(text)
            for path, text in self.texts.items()
            if path.startswith("src/") and path.endswith((".h", ".cc", ".cu"))
        }

    def _paths(self):
        """What git would commit; without git, everything that is no build output."""
        if (self.root / ".git").exists():
            listed = subprocess.run(
                ["git", "-C", self.root, "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
                capture_output=True, text=True, check=False,
            )
            if listed.returncode == 0:
                return [p for p in listed.stdout.split("\0") if p and (self.root / p).is_file()]
        files = (p.relative_to(self.root) for p in self.root.rglob("*") if p.is_file())
        return [str(p) for p in files if not SKIPPED_FOLDERS & set(p.parts)]

    def headers(self):
        return {path: cpp for path, cpp in self.cpp.items() if path.endswith(".h")}

    def doc(self, name):
        return self.texts.get(name, "")

    def modules(self):
        return {path.split("/")[0] for path in self.cpp if "/" in path}

    def line_of(self, name, needle):
        for n, line in enumerate(self.doc(name).split("\n"), 1):
            if needle in line:
                return n
        return 1


def fits(path, places):
    return any(fnmatch.fnmatchcase(path, place) for place in places)


def excused(lines, n):
    """Whether line n carries a waiver with a reason."""
    return any(re.search(r"// tidy: allow, \S", lines[i - 1]) for i in (n, n - 1) if i >= 1)


# --- the map --------------------------------------------------------------------------------------------------------


def include_matrix(tree):
    """Module -> set of modules it may include, None for all; in the order of the document."""
    block = re.search(r"```include-matrix\n(.*?)```", tree.doc("ARCHITECTURE.md"), re.S)
    matrix = {}
    for line in block[1].strip().split("\n") if block else []:
        name, _, allowed = line.partition(":")
        matrix[name.strip()] = None if allowed.strip() == "*" else set(allowed.split())
    return matrix


def check_matrix_goes_down(tree):
    seen = set()
    for name, allowed in include_matrix(tree).items():
        for other in sorted((allowed or set()) - seen):
            yield Finding("ARCHITECTURE.md", tree.line_of("ARCHITECTURE.md", f"{name}  "), "matrix",
                          f"{name} includes {other}, which does not stand above it")
        seen.add(name)
    if not seen:
        yield Finding("ARCHITECTURE.md", 1, "matrix", "no ```include-matrix block")


def check_includes(tree):
    matrix = include_matrix(tree)
    known = set(tree.cpp) | {p[4:] for p in tree.texts if p.startswith("src/")}
    for path, cpp in tree.cpp.items():
        module = path.split("/")[0]
        if module not in matrix:
            yield Finding(f"src/{path}", 1, "include", f"module {module} is not in the include matrix")
            continue
        for n, target, quoted in cpp.includes():
            if not quoted:
                continue
            other = target.split("/")[0]
            if target not in known:
                yield Finding(f"src/{path}", n, "include", f"no file src/{target}; quoted includes start at src/")
            elif other != module and matrix[module] is not None and other not in matrix[module]:
                yield Finding(f"src/{path}", n, "include", f"{module} may not include {other} (ARCHITECTURE.md §4)")


def module_states(tree):
    """Module -> "today" or "planned", from the table of §0."""
    section = re.search(r"^## 0\..*?(?=^## 1)", tree.doc("ARCHITECTURE.md"), re.S | re.M)
    states = {}
    for row in re.finditer(r"^\| (`[^|]*) \| (today|planned) \|", section[0] if section else "", re.M):
        for name in re.findall(r"`(\w+)`", row[1]):
            states[name] = row[2]
    return states


def check_states(tree):
    states, present = module_states(tree), tree.modules()
    for name in include_matrix(tree):
        if name not in states:
            yield Finding("ARCHITECTURE.md", 1, "state", f"module {name} is missing in the table of §0")
    for name, state in states.items():
        line = tree.line_of("ARCHITECTURE.md", f"`{name}`")
        if state == "today" and name not in present:
            yield Finding("ARCHITECTURE.md", line, "state", f"{name} is said to exist, but src/{name} has no code")
        if state == "planned" and name in present:
            yield Finding("ARCHITECTURE.md", line, "state", f"{name} is said to be planned, but src/{name} has code")


def hop_rows(tree):
    """hop -> (thread, [files], [functions], zone) as the document says."""
    rows = {}
    pattern = r"^\| (\d+) \| ([^|]+) \| (`[^|]+) \| [^|]+ \| `([^`|]+)` \|$"
    for row in re.finditer(pattern, tree.doc("ARCHITECTURE.md"), re.M):
        named = re.findall(r"`([^`]+)`", row[3])
        files = [name for name in named if "/" in name]
        rows[int(row[1])] = (row[2], files, [name for name in named if "/" not in name], row[4])
    return rows


def zone_rows(tree):
    rows = {}
    pattern = r'SLUICE_ZONE\(\s*\w+,\s*"([^"]*)",\s*(\d+),\s*"([^"]*)",\s*"([^"]*)",\s*"([^"]*)",\s*"[^"]*"\s*\)'
    for row in re.finditer(pattern, tree.doc("src/base/trace.def")):
        rows[int(row[2])] = (row[3], row[4].split(", "), row[5].split(", "), row[1])
    return rows


def check_hops(tree):
    documented, declared = hop_rows(tree), zone_rows(tree)
    for hop in sorted(set(documented) | set(declared)):
        if documented.get(hop) != declared.get(hop):
            line = tree.line_of("ARCHITECTURE.md", f"| {hop} | ")
            yield Finding("ARCHITECTURE.md", line, "hops",
                          f"hop {hop}: the table says {documented.get(hop)}, base/trace.def {declared.get(hop)}")
    for path, cpp in tree.cpp.items():
        said = {int(m[1]) for m in re.finditer(r"^// hop (\d+) of 10: ", "\n".join(cpp.lines[:20]), re.M)}
        meant = {
            hop for hop, (_, files, _, _) in documented.items()
            if fits(path, [re.sub(r"<\w+>", "*", name) for name in files])
        }
        for hop in sorted(meant - said):
            yield Finding(f"src/{path}", 1, "hops", f"its head lacks `// hop {hop} of 10: after …, before …`")
        for hop in sorted(said - meant):
            yield Finding(f"src/{path}", 1, "hops", f"it says hop {hop}, the table in ARCHITECTURE.md does not name it there")


# --- confinement ----------------------------------------------------------------------------------------------------


def check_confined_includes(tree):
    for path, cpp in tree.cpp.items():
        for n, target, _ in cpp.includes():
            if excused(cpp.lines, n):
                continue
            for pattern, places, instead in CONFINED_INCLUDES:
                if fnmatch.fnmatchcase(target, pattern) and not fits(path, places):
                    yield Finding(f"src/{path}", n, "confined", f"<{target}>: {instead}")
            if SYSTEM_HEADERS.fullmatch(target) and not fits(path, SYSTEM_PLACES):
                yield Finding(f"src/{path}", n, "confined", f"<{target}>: the outside world is behind Env (env/posix)")


def check_confined_code(tree):
    rules = [(rule, re.compile(pattern), places, instead) for rule, pattern, places, instead in CONFINED_CODE]
    for path, cpp in tree.cpp.items():
        for rule, pattern, places, instead in rules:
            for n, found in cpp.find(pattern):
                if not fits(path, places) and not excused(cpp.lines, n):
                    yield Finding(f"src/{path}", n, rule, f"`{found}`: {instead}")


def check_beast_units(tree):
    """Translation units that see Beast, directly or through headers."""
    graph = {path: [t for _, t, _ in cpp.includes()] for path, cpp in tree.cpp.items()}

    def sees(path, visited):
        if path in visited:
            return False
        visited.add(path)
        return any(t.startswith("boost/beast") or (t in graph and sees(t, visited)) for t in graph[path])

    units = [path for path in graph if path.endswith(".cc") and sees(path, set())]
    if len(units) > MAX_BEAST_UNITS:
        yield Finding(f"src/{units[-1]}", 1, "beast",
                      f"{len(units)} files see Beast, {MAX_BEAST_UNITS} may: {', '.join(units)}")


# --- shape ----------------------------------------------------------------------------------------------------------


def check_sizes(tree):
    for path, text in tree.texts.items():
        if not path.startswith(("src/", "tools/")) or not path.endswith((".h", ".cc", ".cu", ".py")):
            continue
        lines = text.split("\n")
        n = len(lines) - (lines[-1] == "")
        waived = re.search(r"(?://|#) tidy: long-file, \S", "\n".join(lines[:30]))
        limit = MAX_FILE_WAIVED if waived else MAX_FILE
        if n > limit:
            yield Finding(path, limit + 1, "long-file", f"{n} lines, {limit} may be")


def check_columns(tree):
    for path, cpp in tree.cpp.items():
        for n, line in enumerate(cpp.lines, 1):
            if len(line) > MAX_COLUMNS and not excused(cpp.lines, n):
                yield Finding(f"src/{path}", n, "columns", f"{len(line)} columns, {MAX_COLUMNS} may be; ./dev fmt")


def check_functions(tree):
    for path, cpp in tree.cpp.items():
        for function in cpp.functions():
            around = "\n".join(cpp.lines[max(0, function.first - 2) : function.last])
            limit = MAX_FUNCTION_WAIVED if re.search(r"// tidy: long-function, \S", around) else MAX_FUNCTION
            if function.n_lines > limit:
                yield Finding(f"src/{path}", function.first, "long-function",
                              f"{function.name} has {function.n_lines} lines, {limit} may be")
            if function.nesting > MAX_NESTING:
                yield Finding(f"src/{path}", function.first, "nesting",
                              f"{function.name} nests {function.nesting} deep, {MAX_NESTING} may be")


def check_headers(tree):
    for path, cpp in tree.headers().items():
        directives = [line.strip() for line in cpp.lines if line.lstrip().startswith("#")]
        if not directives or directives[0] != "#pragma once":
            yield Finding(f"src/{path}", 1, "header", "the first directive must be #pragma once")
        for n, target, _ in cpp.includes():
            if target in HEAVY_IN_HEADERS and not excused(cpp.lines, n):
                yield Finding(f"src/{path}", n, "header", f"<{target}> is too slow for a header: move its use into the .cc")
        says = " ".join(text for _, text in cpp.comments)
        if re.search(r"^\s*class [A-Z]\w*[^;]*{", cpp.code, re.M) and not re.search(
            r"thread|owned by|plain (?:data|value)|immutable|\bpure\b|stateless", says, re.I
        ):
            yield Finding(f"src/{path}", 1, "thread-rule", "a class header says its thread rule")


def check_public_headers(tree):
    """Public is what other modules include. app joins everything, and tests look inside: they do not count."""
    public = {}
    for path, cpp in tree.cpp.items():
        module = path.split("/")[0]
        if module == "app" or fits(path, TESTS):
            continue
        for _, target, quoted in cpp.includes():
            if quoted and target.split("/")[0] != module:
                public.setdefault(target.split("/")[0], set()).add(target)
    for module, headers in sorted(public.items()):
        if module not in MANY_HEADERS and len(headers) > MAX_PUBLIC_HEADERS:
            yield Finding(f"src/{module}", 1, "public-headers",
                          f"{len(headers)} headers are used by other modules, {MAX_PUBLIC_HEADERS} may be: "
                          + ", ".join(sorted(headers)))


def check_conditions(tree):
    """Preprocessor conditions: a folder chosen in CMake and a no_<name>.cc instead."""
    where, n_lines = [], 0
    for path, cpp in tree.cpp.items():
        n_lines += len(cpp.lines)
        where += [(path, n) for n, line in enumerate(cpp.lines, 1) if re.match(r"\s*#\s*(?:if|ifdef|ifndef|elif)\b", line)]
    allowed = -(-n_lines // CONDITIONS_PER_LINES)
    for path, n in where[allowed:]:
        yield Finding(f"src/{path}", n, "conditions",
                      f"{len(where)} preprocessor conditions in {n_lines} lines, {allowed} may be; choose a folder in CMake")


# --- words ----------------------------------------------------------------------------------------------------------


def check_file_names(tree):
    name = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*(?:\.h|\.cc|\.cu|\.def|\.inc)")
    for path in tree.texts:
        if not path.startswith("src/") or Path(path).suffix not in (".h", ".cc", ".cu", ".def", ".inc"):
            continue
        if not name.fullmatch(Path(path).name):
            yield Finding(path, 1, "file-name", "files are snake_case.{h,cc,cu}")
        words = {w for part in Path(path).with_suffix("").parts for w in part.split("_")}
        for word in sorted(words & BANNED_FILE_WORDS):
            yield Finding(path, 1, "file-name", f"'{word}' says nothing: a noun of the domain")


def check_words(tree):
    banned = [(re.compile(pattern), instead) for pattern, instead in BANNED_WORDS]
    for path, cpp in tree.cpp.items():
        for pattern, instead in banned:
            for n, found in cpp.find(pattern):
                if not excused(cpp.lines, n):
                    yield Finding(f"src/{path}", n, "word", f"`{found}`: {instead}")


def check_comments(tree):
    code = re.compile(r"// ?(?! )(?:(?:return|if|for|while|auto|const|int|bool|std::)\b.*[;{]|[\w.>:\-\[\]]+(?:\([^()]*\))?(?: [+\-*/|&]?= .*)?;|[{}])\s*$")
    for path, cpp in tree.cpp.items():
        for n, comment in cpp.comments:
            if excused(cpp.lines, n):
                continue
            if re.search(r"\b(?:FIXME|XXX)\b", comment):
                yield Finding(f"src/{path}", n, "comment", "FIXME may not reach main: mend it or open an issue")
            if re.search(r"\bTODO\b(?!\(#\d+\): )", comment):
                yield Finding(f"src/{path}", n, "comment", "write TODO(#123): with the number of an issue")
            if re.search(r"[-=*~#/]{4,}", re.sub(r"^\s*//", "", comment)):
                yield Finding(f"src/{path}", n, "comment", "no banner lines: split the file or let the order speak")
            if re.search(r"\b(?:changed (?:to|from)|renamed (?:to|from)|used to be|formerly)\b", comment):
                yield Finding(f"src/{path}", n, "comment", "no history: say what holds now")
            if code.match(comment.strip()) and cpp.lines[n - 1].lstrip().startswith("//"):
                yield Finding(f"src/{path}", n, "comment", "commented-out code: delete it")


def check_leaks(tree):
    for path, text in tree.texts.items():
        for match in LEAKS.finditer(text):
            n = text.count("\n", 0, match.end()) + 1
            yield Finding(path, n, "leak", f"`{match[0].strip()}` names a machine or a registry")


# --- lists ----------------------------------------------------------------------------------------------------------


def check_targets(tree):
    """Every source is in a target: by the rules of cmake/sluice_module.cmake, and in the dev build if there is one."""
    cmake = tree.doc("src/CMakeLists.txt")
    modules = set(re.findall(r"^\s*sluice_module\((\w+)", cmake, re.M))
    ninja = tree.root / "build/dev/build.ninja"
    built = ninja.read_text() if ninja.exists() else None
    for path in tree.cpp:
        if not path.endswith(".cc"):
            continue
        if path.count("/") == 0 or (path.startswith("app/") and (path.count("/") > 1 or fits(path, TESTS))):
            yield Finding(f"src/{path}", 1, "target", "no target takes it: app is one flat folder of sources, the rest modules")
        elif not path.startswith("app/") and path.split("/")[0] not in modules:
            yield Finding(f"src/{path}", 1, "target", "its module has no sluice_module line in src/CMakeLists.txt")
        elif built and not fits(path, ["*_fuzz.cc", "*_bench.cc", "kernels/*/bench.cc"]) and f"src/{path}" not in built:
            if (tree.root / "src" / path).stat().st_mtime < ninja.stat().st_mtime:
                yield Finding(f"src/{path}", 1, "target", "no target of build/dev takes it")
    python = {p: t for p, t in tree.texts.items() if p.startswith("tests/") and p.endswith(".py")}
    for path in python:
        name = Path(path).stem
        if fits(path, ["tests/golden/*/make.py"]):  # run by hand, as the README beside it says
            continue
        imported = re.compile(rf"^\s*(?:from|import)\b.*\b{name}\b", re.M)
        if not re.match(r"test_|conftest$|__init__$", name) and not any(imported.search(t) for t in python.values()):
            yield Finding(path, 1, "target", "pytest collects test_*.py, and nothing imports this")


def check_readmes(tree):
    for module in sorted(tree.modules()):
        text = tree.texts.get(f"src/{module}/README.md")
        if text is None:
            yield Finding(f"src/{module}/README.md", 1, "readme", "missing: purpose, headers, invariants, tests, where to begin")
        elif text.count("\n") > MAX_README:
            yield Finding(f"src/{module}/README.md", MAX_README + 1, "readme", f"{text.count(chr(10))} lines, {MAX_README} may be")


def check_metrics(tree):
    declared = [m[2] for m in docs.metrics(tree.doc("src/base/metrics.def"))]
    text = tree.doc("docs/operations.md")
    shown = re.findall(r"^\| `sluice_(\w+)` \|", text, re.M)
    for name in sorted({n for n in declared if declared.count(n) > 1}):
        yield Finding("src/base/metrics.def", tree.line_of("src/base/metrics.def", f'"{name}"'), "metrics", f"{name} stands twice")
    for name in sorted(set(declared) - set(shown)):
        yield Finding("docs/operations.md", 1, "metrics", f"sluice_{name} is missing; python3 tools/docs.py")
    for name in sorted(set(shown) - set(declared)):
        yield Finding("docs/operations.md", tree.line_of("docs/operations.md", f"sluice_{name}"), "metrics",
                      f"sluice_{name} does not exist")
    for name in sorted(set(re.findall(r"`sluice_(\w+)`", text)) - set(declared) - set(shown)):
        yield Finding("docs/operations.md", tree.line_of("docs/operations.md", f"sluice_{name}"), "metrics",
                      f"sluice_{name} does not exist")


def check_links(tree):
    for path, text in tree.texts.items():
        if not path.endswith(".md"):
            continue
        for n, line in enumerate(re.sub(r"```.*?```", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S).split("\n"), 1):
            for target in re.findall(r"\]\(([^)\s]+)\)", line):
                if re.match(r"[a-z]+:|#", target):
                    continue
                if not (tree.root / path).parent.joinpath(target.split("#")[0]).exists():
                    yield Finding(path, n, "link", f"no file {target}")


def existing_tests(tree):
    """Names of unit tests (Suite.Name), of pytest's and of cases."""
    names = set()
    for path, text in tree.texts.items():
        if path.endswith("_test.cc"):
            names |= {f"{m[1]}.{m[2]}" for m in re.finditer(r"^TEST\w*\((\w+),\s*(\w+)\)", text, re.M)}
        elif path.startswith("tests/") and path.endswith(".py"):
            names |= set(re.findall(r"^def (test_\w+)\(", text, re.M))
        elif path.endswith(".case"):
            names |= set(re.findall(r"^case +(\S+)", text, re.M))
    return names


def check_named_tests(tree):
    """tests/named-cases.md against the tests that exist."""
    name = "tests/named-cases.md"
    rows = re.findall(r"^\| ([CS]\d+) \|.*\| (.+) \|$", tree.doc(name), re.M)
    existing = existing_tests(tree)
    for wanted in sorted(set(NAMED_CASES) - {case for case, _ in rows}):
        yield Finding(name, 1, "named-case", f"{wanted} has no row")
    for case, cell in rows:
        line = tree.line_of(name, f"| {case} |")
        tests = re.findall(r"`([^`]+)`", cell)
        if not tests:
            yield Finding(name, line, "named-case", f"{case} has no test")
        for test in tests:
            if test not in existing:
                yield Finding(name, line, "named-case", f"no test {test}")
            if not re.search(rf"(?<![a-zA-Z0-9]){case}(?!\d)|[A-Z]\d\d{case}(?!\d)", test, re.I):
                yield Finding(name, line, "named-case", f"{test} does not carry {case} in its name")


CHECKS = [
    check_matrix_goes_down, check_includes, check_states, check_hops, check_confined_includes, check_confined_code,
    check_beast_units, check_sizes, check_columns, check_functions, check_headers, check_public_headers, check_conditions,
    check_file_names, check_words, check_comments, check_leaks, check_targets, check_readmes, check_metrics, check_links,
    check_named_tests,
]


def find_all(root):
    tree = Tree(Path(root))
    return tree, sorted({finding for check in CHECKS for finding in check(tree)})


def folders_per_commit(root):
    """How many folders each of the last 50 commits touches: one is normal, two need a sentence, three a design note."""
    log = subprocess.run(
        ["git", "-C", root, "log", "-50", "--no-merges", "--name-only", "--format=%x00"],
        capture_output=True, text=True, check=False,
    )
    counts = {1: 0, 2: 0, 3: 0}
    for commit in log.stdout.split("\0")[1:] if log.returncode == 0 else []:
        folders = {tuple(Path(p).parts[: 2 if p.startswith("src/") else 1]) for p in commit.split("\n") if "/" in p}
        counts[min(3, max(1, len(folders)))] += 1
    return counts


def main():
    start = time.monotonic()
    root = Path(__file__).resolve().parent.parent
    tree, findings = find_all(root)
    for finding in findings:
        print(finding)
    counts = folders_per_commit(root)
    n_lines = sum(len(cpp.lines) for cpp in tree.cpp.values())
    print(f"tidy: last commits by folders touched: one {counts[1]}, two {counts[2]}, more {counts[3]}")
    print(f"tidy: {len(tree.texts)} files, {n_lines} lines under src, {len(findings)} findings, {time.monotonic() - start:.1f} s")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
