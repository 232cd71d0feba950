#!/usr/bin/env python3
"""Each rule of tidy is shown to fire on a small bad tree, and to be silent on the good one."""

import tempfile
import unittest
from pathlib import Path

import tidy
from tidy_tables import NAMED_CASES

C01, REST = "| C01 | x | `A.C01Works`, `test_c01_works` |\n", [case for case in NAMED_CASES if case != "C01"]
ROWS = C01 + "".join(f"| {case} | x | `chat_{case}_works` |\n" for case in REST)

GOOD = {
    "ARCHITECTURE.md": """# Map
## 0. What exists
| module | state | what |
|---|---|---|
| `base` | today | x |
| `env` `wire` | today | x |
| `serve` | today | x |
| `app` | today | x |
| `model` | planned | |
## 1. Hops
| hop | thread | file · function | from → to | trace zone |
|---|---|---|---|---|
| 1 | net | `serve/connection.cc` · `ReadRequest` | bytes → request | `http.read` |
## 4. Matrix
```include-matrix
base    :
env     : base
wire    : base
serve   : wire env base
model   : base
app     : *
```
""",
    "README.md": "[map](ARCHITECTURE.md#map) and [web](https://example.org/)\n",
    "docs/operations.md": "| `sluice_steps_total` | counter | | Steps. |\n",
    "src/CMakeLists.txt": "sluice_module(base)\nsluice_module(env LINK base)\nsluice_module(wire)\nsluice_module(serve)\n",
    "src/base/README.md": "base\n",
    "src/base/metrics.def": 'SLUICE_METRIC(Counter, kSteps, "steps_total", "steps", (), "Steps.")\n',
    "src/base/trace.def": 'SLUICE_ZONE(kHttpRead, "http.read", 1, "net",\n'
    '            "serve/connection.cc", "ReadRequest", "bytes -> request")\n',
    "src/base/a.h": "// A: a thing. Thread-compatible.\n\n#pragma once\n\nnamespace sluice {\nclass A {\n public:\n"
    "  A(const A&) = delete;\n  A() : b_{1'000}, c_{2} {\n    Go();\n  }\n  size_t free() const { return 0; }\n};\n}\n",
    "src/env/README.md": "env\n",
    "src/env/env.h": '#pragma once\n#include "base/a.h"\n',
    "src/wire/README.md": "wire\n",
    "src/wire/token_service.h": "// Thread-safe.\n#pragma once\nclass TokenService {\n  virtual void F() = 0;\n};\n",
    "src/serve/README.md": "serve\n",
    "src/serve/connection.cc": '// hop 1 of 10: after nothing, before Decode.\n#include "env/env.h"\n#include <boost/beast/http.hpp>\n'
    "void F() {\n  // A reason in words; with a semicolon.\n  const char* text = \"new FIXME // time(0)\";\n}\n"
    "//   a.Example();\n",
    "src/base/a_test.cc": "TEST(A, C01Works) { Go(); }\n",
    "tests/named-cases.md": ROWS,
    "tests/e2e/test_a.py": "def test_c01_works():\n    pass\n",
    "tests/api/a.case": "".join(f"case chat_{case}_works\n" for case in REST),
    "src/app/README.md": "app\n",
    "src/app/main.cc": '#include "serve/connection.h"\nint main() { getenv("X"); }\n'.replace(
        '#include "serve/connection.h"\n', ""
    ),
}


def long_function(n, waiver=""):
    return "void F() {\n" + waiver + "  G();\n" * n + "}\n"


# rule -> files that break it, each tried on its own with the good tree around it
BAD = {
    "matrix": [{"ARCHITECTURE.md": ("base    :\n", "base    : wire\n")}, {"ARCHITECTURE.md": ("include-matrix", "text")}],
    "include": [
        {"src/base/b.cc": '#include "wire/token_service.h"\n'},
        {"src/base/b.cc": '#include "base/absent.h"\n'},
        {"src/extra/b.cc": "int b;\n"},
    ],
    "state": [
        {"ARCHITECTURE.md": ("| `model` | planned | |\n", "")},
        {"ARCHITECTURE.md": ("| `model` | planned |", "| `model` | today |")},
        {"ARCHITECTURE.md": ("| `serve` | today |", "| `serve` | planned |")},
    ],
    "hops": [
        {"src/serve/connection.cc": "int a;\n"},
        {"src/base/b.cc": "// hop 2 of 10: after a, before b.\n"},
        {"src/base/trace.def": ("http.read", "http.reed")},
        {"ARCHITECTURE.md": ("`ReadRequest`", "`Read`")},
    ],
    "confined": [
        {"src/base/b.cc": f"#include <{header}>\n"}
        for header in (
            "boost/beast/core.hpp", "boost/asio/ip/tcp.hpp", "boost/unordered/unordered_flat_map.hpp", "simdjson.h",
            "spdlog/spdlog.h", "toml++/toml.h", "CLI/CLI.hpp", "openssl/evp.h", "zstd.h", "prometheus/registry.h",
            "immintrin.h", "gtest/gtest.h", "sys/socket.h", "unistd.h", "thread", "mutex", "nlohmann/json.hpp",
        )
    ] + [{"src/base/b.h": "#pragma once\n#include <fmt/format.h>\n"}, {"src/serve/b.h": "#pragma once\n#include <boost/beast.hpp>\n"}],
    "beast": [{f"src/serve/b{i}.cc": "#include <boost/beast/http.hpp>\n" for i in range(4)}],
    "clock": [{"src/base/b.cc": "auto t = std::chrono::steady_clock::now();\n"}, {"src/base/b_test.cc": "int t = time(nullptr);\n"}],
    "entropy": [{"src/base/b.cc": "std::random_device device;\n"}],
    "environment": [{"src/base/b.cc": 'auto v = getenv("X");\n'}],
    "sleep": [{"src/base/b_test.cc": "void F() { std::this_thread::sleep_for(x); }\n"}, {"src/base/b.cc": "void F() { usleep(3); }\n"}],
    "random": [{"src/base/b_test.cc": "int a = rand();\n"}],
    "memory": [{"src/base/b.cc": "void F() { madvise(p, n, 1); }\n"}],
    "new": [
        {"src/base/b.cc": "auto* a = new A;\n"}, {"src/base/b.cc": "void F() {\n  delete a;\n}\n"},
        {"src/base/b.cc": "void F() { free(p); }\n"}, {"src/base/b.cc": "void* p = malloc(3);\n"},
    ],
    "shared_ptr": [{"src/base/b.cc": "std::shared_ptr<A> a;\n"}],
    "mutex": [{"src/base/b.cc": "void F() { MutexLock lock(mu_); }\n"}],
    "throw": [{"src/base/b.cc": "void F() { throw 1; }\n"}],
    "coroutine": [{"src/base/b.cc": "void F() { co_return; }\n"}],
    "seam": [{"src/base/b.h": "// Thread-safe.\n#pragma once\nclass B {\n  virtual void F() = 0;\n};\n"}],
    "print": [{"src/base/b.cc": "void F() { std::cout << 1; }\n"}],
    "long-file": [{"src/base/b.cc": "int a;\n" * 501}, {"src/base/b.cc": "// tidy: long-file, a table\n" + "int a;\n" * 1000}],
    "columns": [{"src/base/b.cc": "int " + "a" * 97 + ";\n"}],
    "long-function": [
        {"src/base/b.cc": long_function(69)}, {"src/base/b.cc": long_function(148, "  // tidy: long-function, one order\n")},
    ],
    "nesting": [{"src/base/b.cc": "void F() {\n" + "  if (a) {\n" * 5 + "G();\n" + "}\n" * 5 + "}\n"}],
    "header": [{"src/base/b.h": "#include <vector>\n#pragma once\n"}, {"src/base/b.h": "#pragma once\n#include <functional>\n"}],
    "thread-rule": [{"src/base/b.h": "// B.\n#pragma once\nclass B {\n};\n"}],
    "public-headers": [
        {f"src/env/h{i}.h": "#pragma once\n" for i in range(6)}
        | {"src/serve/b.cc": "".join(f'#include "env/h{i}.h"\n' for i in range(6))}
    ],
    "conditions": [{"src/base/b.cc": "#if A\n#endif\n#ifdef B\n#endif\n"}],
    "file-name": [{"src/base/Big.cc": "int a;\n"}, {"src/base/string_utils.cc": "int a;\n"}, {"src/base/common/b.cc": "int a;\n"}],
    "word": [
        {"src/base/b.cc": f"class {name} {{}};\n"}
        for name in ("BlockManager", "RequestProcessor", "StringUtil", "JsonHelper", "ServerImpl", "BatchInfo")
    ],
    "comment": [
        {"src/base/b.cc": f"{text}\nint a;\n"}
        for text in (
            "// FIXME: later", "// TODO: later", "// TODO(someone): later", "// -----------", "// ==== Part two ====",
            "// The limit used to be 5.", "// total += Count(x);", "// return a;", "//if (a) {",
        )
    ],
    "leak": [{"docs/x.md": "see /wo" + "rk/main\n"}, {"docs/x.md": "from pypi." + "org\n"}, {"tests/x.py": "a = '/ro" + "ot/x'\n"}],
    "target": [
        {"src/stray.cc": "int a;\n"}, {"src/app/deep/b.cc": "int a;\n"}, {"src/app/b_test.cc": "int a;\n"},
        {"src/CMakeLists.txt": "sluice_module(base)\n"}, {"tests/e2e/http_tests.py": "\n"},
    ],
    "readme": [{"src/base/README.md": None}, {"src/base/README.md": "line\n" * 61}],
    "named-case": [
        {"tests/named-cases.md": (C01, "")},
        {"tests/named-cases.md": (C01, "| C01 | x | none |\n")},
        {"tests/named-cases.md": (C01, C01.replace("C01Works", "C01Fails"))},
        {"tests/named-cases.md": (C01, C01.replace("`A.C01Works`", "`chat_C02_works`"))},
        {"tests/e2e/test_a.py": ("test_c01_works", "test_c01_is_gone")},
        {"src/base/a_test.cc": ("C01Works", "C01IsGone")},
        {"tests/api/a.case": ("case chat_S13_works", "case chat_S13_is_gone")},
    ],
    "metrics": [
        {"docs/operations.md": "nothing\n"},
        {"docs/operations.md": "| `sluice_steps_total` | |\n| `sluice_gone_total` | |\n"},
        {"docs/operations.md": "| `sluice_steps_total` | |\nsee `sluice_stops_total`\n"},
        {"src/base/metrics.def": 'SLUICE_METRIC(Counter, kSteps, "steps_total", "steps", (), "Steps.")\n' * 2},
    ],
    "link": [{"README.md": "[x](docs/absent.md)\n"}],
}

EXCUSED = [
    {"src/base/b.cc": "auto* a = new A;  // tidy: allow, an arena of its own\n"},
    {"src/base/b.cc": "// tidy: allow, the one place that may\nstd::shared_ptr<A> a;\n"},
    {"src/base/b.cc": long_function(100, "  // tidy: long-function, one state machine\n")},
    {"src/base/b.cc": "// tidy: long-file, a table\n" + "int a;\n" * 900},
    {"src/base/b.cc": "std::unique_ptr<A> a(new A);\n".replace("a(new A)", "a = std::unique_ptr<A>(new A)")},
    {"src/base/b.cc": "// TODO(#12): the second half\nint a;\n"},
    {"src/serve/b.cc": "void F() { co_return; }\n"},
    {"src/base/b.cc": "auto text = R\"(FIXME new delete throw)\";\nint a = 1'000'000; char c = 'x'; // fine\n"},
    {"src/base/b.cc": "void F() {\n" + "  for (int i = 0; i < 3; ++i) {\n    auto g = [&] {\n      H();\n    };\n  }\n" * 12 + "}\n"},
]


class TidyTest(unittest.TestCase):
    def findings(self, changes):
        """Findings of the good tree with `changes`: text, None (no such file) or (old, new) in the good text."""
        files = dict(GOOD)
        for path, change in changes.items():
            if isinstance(change, tuple):
                self.assertIn(change[0], GOOD[path])
                change = GOOD[path].replace(*change)
            files[path] = change
        with tempfile.TemporaryDirectory() as folder:
            for path, text in files.items():
                if text is not None:
                    target = Path(folder) / path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_text(text)
            return tidy.find_all(folder)[1]

    def test_good_tree_has_no_findings(self):
        self.assertEqual(self.findings({}), [])

    def test_every_rule_fires(self):
        for rule, trees in BAD.items():
            for changes in trees:
                with self.subTest(rule=rule, changes={k: str(v)[:60] for k, v in changes.items()}):
                    self.assertIn(rule, {finding.rule for finding in self.findings(changes)})

    def test_waivers_and_lookalikes_are_accepted(self):
        for changes in EXCUSED:
            with self.subTest(changes={k: str(v)[:60] for k, v in changes.items()}):
                self.assertEqual(self.findings(changes), [])

    def test_every_rule_of_the_program_is_tried(self):
        source = Path(tidy.__file__).read_text() + Path(tidy.__file__).with_name("tidy_tables.py").read_text()
        for rule in [rule for rule, *_ in tidy.CONFINED_CODE]:
            self.assertIn(rule, BAD)
        for rule in BAD:
            self.assertIn(f'"{rule}"', source)

    def test_finding_names_file_and_line(self):
        found = self.findings({"src/base/b.cc": "int a;\nauto* b = new A;\n"})
        self.assertEqual([str(f).split(": ")[0] for f in found], ["src/base/b.cc:2"])


if __name__ == "__main__":
    unittest.main()
