"""Rows S9, S10 and S19 of the security table (spec users.md §5). Row S13 is a test of the codec:
`ControlTokens.S13NoTextOfAClientIsOne` in src/codec/control_tokens_test.cc.
"""

import json
import re
import threading
import time

import pytest

from harness.raw_http import Connection, chat_request, once, request_bytes
from harness.server import REPOSITORY, Server
from harness.sse import FrameReader

OFF = {"thinking": {"type": "disabled"}}
OK = {"out": "</think>ok", "times": "always"}
DSML = "｜DSML｜"
# Of the server, not of its tests and benches.
SOURCES = sorted(
    p
    for p in (REPOSITORY / "src").rglob("*")
    if p.suffix in (".cc", ".h") and not re.search(r"_(test|bench|fuzz)(_impl)?\.", p.name)
)

LOOP = "{% for i in range(10**9) %}{{ i }}{% endfor %}"
REQUESTS = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9},
    "/v1/responses": {"input": "hi"},
    "/v1/completions": {"prompt": "hi"},
}


def ask(port, path, **fields):
    body = {"model": "deepseek-flash"} | REQUESTS[path] | fields
    return once(port, request_bytes("POST", path, body=json.dumps(body).encode()))


# S9: a template is a program of the client's.


@pytest.mark.parametrize("path", REQUESTS)
def test_s9_no_request_brings_a_template(path):
    with Server(script=[OK]) as server:
        usage = ask(server.port, path).json()["usage"]
        answer = ask(server.port, path, chat_template=LOOP)
        if path == "/v1/chat/completions":
            assert answer.status == 400 and answer.error()["param"] == "chat_template"
            assert LOOP not in answer.body.decode()
        else:  # no field of these APIs: said to be ignored, and the prompt is the same
            assert "chat_template" in answer.header("x-sluice-ignored-fields")
            assert answer.json()["usage"] == usage


def test_s9_template_arguments_have_names_types_and_sizes():
    path = "/v1/chat/completions"
    with Server(script=[OK]) as server:
        plain = ask(server.port, path, **OFF).json()["usage"]
        known = ask(server.port, path, chat_template_kwargs={"thinking": False})
        assert known.json()["usage"] == plain
        other = {"thinking": False, "x" * 500: LOOP, "loop": {"a": [1] * 1000}}
        listed = ask(server.port, path, chat_template_kwargs=other)
        assert listed.json()["usage"] == plain
        header = listed.header("x-sluice-ignored-fields")
        assert "chat_template_kwargs.loop" in header and len(header) < 500
        for wrong in ({"thinking": LOOP}, {"enable_thinking": 1}, {"reasoning_effort": [1]}, [], LOOP):
            assert ask(server.port, path, chat_template_kwargs=wrong).status == 400
    with Server(script=[OK], options=["--strict"]) as server:
        refused = ask(server.port, path, chat_template_kwargs={"loop": 1})
        assert refused.status == 400 and refused.error()["param"] == "chat_template_kwargs.loop"


# S10: what a schema, a pattern or a grammar may cost.

PATTERNS = ["(a+)+$", "(a|a)*b", "(.*a){64}", "a{1,1000000}", "((x{1000}){1000}){1000}", "(" * 5_000, "[", "\\"]


def nested(depth):
    schema = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def chain(n):
    links = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(n)}
    return {"$ref": "#/$defs/d0", "$defs": links | {f"d{n}": {"type": "string"}}}


EVIL = {
    "enum of 10^5": {"enum": [f"value {i}" for i in range(100_000)]},
    "cyclic": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    "cyclic root": {"type": "array", "items": {"$ref": "#"}},
    "chain of references": chain(10_000),
    "deep": nested(40),
    "too deep": nested(200),
    "wide": {"anyOf": [{"const": i} for i in range(20_000)]},
    "allOf of anyOf": {"allOf": [{"anyOf": [{"minimum": j} for j in range(100)]} for _ in range(100)]},
    "many properties": {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(20_000)}},
    "large counts": {"type": "array", "minItems": 10, "maxItems": 10**9, "items": {"maxLength": 2 * 10**9}},
    "wrong type": {"type": 5},
    "no schema": [[]],
} | {pattern[:20]: {"type": "string", "pattern": pattern} for pattern in PATTERNS}


def places(schema):
    """Every place of a request where a schema may stand: (path, fields)."""
    whole = {"type": "object", "properties": {"v": schema}, "required": ["v"], "additionalProperties": False}
    function = {"name": "f", "parameters": whole}
    named = {"name": "n", "schema": whole}
    for strict in (False, True):
        yield "/v1/chat/completions", {"tools": [{"type": "function", "function": function | {"strict": strict}}]}
        form = {"type": "json_schema", "json_schema": named | {"strict": strict}}
        yield "/v1/chat/completions", {"response_format": form}
        yield "/v1/responses", {"tools": [{"type": "function", **function, "strict": strict}]}
        yield "/v1/responses", {"text": {"format": {"type": "json_schema", **named, "strict": strict}}}
    yield "/v1/messages", {"tools": [{"name": "f", "input_schema": whole}]}
    yield "/v1/messages", {"output_config": {"format": {"type": "json_schema", "schema": whole}}}


class Probe:
    """A stream beside it all; the longest gap between two of its events, in seconds."""

    def __init__(self, port):
        self._port = port
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self.longest = 0.0

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _read(self):
        with Connection(self._port) as c:
            c.send(chat_request("probe", stream=True, max_tokens=100_000, **OFF))
            last = time.monotonic()
            for _ in FrameReader(c.pieces(c.read_head())):
                now = time.monotonic()
                self.longest = max(self.longest, now - last)
                last = now
                if self._stop.is_set():
                    return


def test_s10_no_schema_or_pattern_holds_the_server_up():
    pace = {"when": {"last": "probe"}, "out": "x" * 100_000, "pace_ms": 10, "times": "always"}
    with Server(script=[pace, OK]) as server, Probe(server.port) as probe:
        limit = 20  # a busy machine; what is not linear needs minutes
        for name, schema in EVIL.items():
            for path, fields in places(schema):
                begin = time.monotonic()
                answer = ask(server.port, path, **fields)
                spent = time.monotonic() - begin
                assert answer.status in (200, 400), (name, path, answer.body[:300])
                assert spent < limit, (name, path, spent)
        for pattern in PATTERNS:
            form = {"type": "regex", "pattern": pattern}
            assert ask(server.port, "/v1/chat/completions", response_format=form).status in (200, 400)
            for syntax in ("regex", "lark"):
                grammar = {"type": "grammar", "syntax": syntax, "definition": pattern}
                tools = [{"type": "custom", "name": "apply_patch", "format": grammar}]
                assert ask(server.port, "/v1/responses", tools=tools).status in (200, 400)
        # Nothing of it was kept, and the stream beside it went on.
        assert ask(server.port, "/v1/chat/completions").status == 200
    assert probe.longest < limit


def test_s10_nothing_that_backtracks_is_linked():
    engines = re.compile(r"#include\s*[<\"](regex|.*\b(re2|pcre\w*|onig\w*|xpressive|boost/regex)\b.*)[>\"]")
    assert len(SOURCES) > 300
    found = [f"{p}: {line}" for p in SOURCES for line in p.read_text().splitlines() if engines.match(line)]
    assert not found, found


# S19: what a model writes is data.

CODE = [
    '__import__("os").system("touch evaluated")',
    "$(touch evaluated)",
    "`touch evaluated`",
    "'; touch evaluated; '",
    "{{ ''.__class__.__mro__ }}",
    "${jndi:ldap://127.0.0.1/a}",
    "%n%n%s",
    "</script><script>alert(1)</script>",
]


def test_s19_nothing_evaluates_text():
    """One file starts programs: pip, with arguments that stand in the source, for `sluice pull`."""
    evaluators = re.compile(
        r"(?<![\w.>])(?:std::|::)?(system|popen|exec[lv]\w*|dlopen|fork|posix_spawn\w*|wordexp)\s*\("
        r"|#include\s*[<\"](lua|Python\.h|quickjs|duktape|v8)"
    )
    found = [
        f"{p}: {line}"
        for p in SOURCES
        if not p.match("src/env/posix/process.cc")
        for line in p.read_text().splitlines()
        if evaluators.search(line.split("//")[0])
    ]
    assert not found, found
    users = [p.name for p in SOURCES if "RunProgram(" in p.read_text()]
    assert sorted(users) == ["process.cc", "process.h", "pull.cc"]


@pytest.mark.parametrize("kind", ["true", "false"])
def test_s19_arguments_come_as_the_model_wrote_them(kind):
    def call(code):
        parameter = f'<{DSML} parameter name="a" string="{kind}">{code}</{DSML} parameter>'
        invoke = f'<{DSML} invoke name="f">\n{parameter}\n</{DSML} invoke>'
        return f"\n\n<{DSML} calls>\n{invoke}\n</{DSML} calls>"

    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
    with Server(script=[call(code) for code in CODE]) as server:
        before = sorted(server.folder.iterdir())
        for code in CODE:
            answer = ask(server.port, "/v1/chat/completions", tools=tools, **OFF).json()
            (made,) = answer["choices"][0]["message"]["tool_calls"]
            assert json.loads(made["function"]["arguments"]) == {"a": code}
        assert sorted(server.folder.iterdir()) == before
        children = (server.folder / f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text()
        assert children == ""
