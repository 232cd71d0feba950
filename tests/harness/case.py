"""Reads *.case files: one API behaviour as text. The format is described in tests/README.md."""

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

# By the name of the folder: where to POST, and what a request holds that does not say otherwise.
_MESSAGES = {"messages": [{"role": "user", "content": "hi"}]}
_APIS = {
    "chat": ("/v1/chat/completions", _MESSAGES),
    "messages": ("/v1/messages", _MESSAGES),
    "completions": ("/v1/completions", {"prompt": "hi"}),
    "responses": ("/v1/responses", {"input": "hi"}),
    "inquiries": ("/tokenize", {}),
}
_EVENT = re.compile(r'\s*(reasoning|content|finish|error)\s+("(?:[^"\\]|\\.)*"|\w+)\s*')


@dataclass
class Case:
    name: str
    api: str = "chat"
    options: tuple = ()
    path: str = "/v1/chat/completions"
    headers: list = field(
        default_factory=list
    )  # (name, value); an empty value takes the header away
    request: dict = field(default_factory=dict)
    body: bytes | None = None  # instead of `request`
    runs: tuple = ("stream", "plain")
    alone: bool = False
    script: list = field(default_factory=list)
    status: int = 200
    error: dict = field(default_factory=dict)
    says: list = field(default_factory=list)
    events: dict = field(default_factory=dict)  # choice -> [(kind, text)]
    chunks: list | None = None
    usage: dict = field(default_factory=dict)
    logprobs: dict = field(default_factory=dict)  # "content" -> [token, ...]
    logprob: float | None = None
    alternatives: int | None = None
    lists: dict = field(default_factory=dict)  # Completions: lists of `logprobs`, `prompt_logprobs`
    header_is: list = field(default_factory=list)
    stop: str | None = None  # Messages: the stop string that was found
    calls: list | None = None  # [name, arguments] of each
    blocks: list | None = None  # Messages: the content of the answer
    message: dict = field(default_factory=dict)  # Messages, chat: its top-level members, None: absent
    answer: dict | None = None  # inquiries: members of the answer

    @property
    def takes_script(self):
        return self.answer is None and (bool(self.script) or self.status == 200)


def expand(value, i=None):
    """Replaces the three macros that keep big requests readable: $repeat, $text, $nest."""
    if isinstance(value, str):
        return value if i is None else value.replace("$i", str(i))
    if isinstance(value, list):
        return [expand(x, i) for x in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"$repeat"}:
        n, item = value["$repeat"]
        return [expand(item, k) for k in range(n)]
    if set(value) == {"$text"}:
        n, text = value["$text"]
        return text * n
    if set(value) == {"$nest"}:
        nested = []
        for _ in range(value["$nest"] - 1):
            nested = [nested]
        return nested
    return {k: expand(v, i) for k, v in value.items()}


def _events(text):
    out, at = [], 0
    while at < len(text):
        found = _EVENT.match(text, at)
        assert found, f"cannot read events at: {text[at:]!r}"
        kind, value = found.groups()
        out.append((kind, json.loads(value) if value[0] == '"' else value))
        at = found.end()
        assert at == len(text) or text[at] == "|", f"expected | at: {text[at:]!r}"
        at += 1
    return out


def _pairs(text):
    out = {}
    for part in shlex.split(text):
        key, equals, value = part.partition("=")
        assert equals, f"expected key=value: {part!r}"
        out[key] = None if value == "null" else value
    return out


def _strings(text):
    return [json.loads(x) for x in re.findall(r'"(?:[^"\\]|\\.)*"', text)]


def _take(case, state, key, value):
    """One line of a case file."""
    if key == "request":
        state["request"] = json.loads(value)
    elif key == "omit":
        state["omit"] = value.split()
    elif key == "raw":
        case.body = expand(json.loads(value)).encode()
    elif key == "hex":
        case.body = bytes.fromhex(value)
    elif key == "run":
        case.runs = ("stream", "plain") if value == "both" else (value,)
    elif key == "script":
        case.script.append(json.loads(value))
    elif key == "options":
        case.options = tuple(shlex.split(value))
    elif key in ("header", "header-is"):
        name, _, content = value.partition(":")
        list_ = case.headers if key == "header" else case.header_is
        list_.append((name.strip(), content.strip()))
    elif key.startswith("events"):
        case.events[int(key[7:-1] or 0) if key != "events" else 0] = _events(value)
    elif key == "chunks":
        case.chunks = _events(value)
    elif key == "error":
        case.error = _pairs(value)
    elif key == "says":
        case.says = _strings(value)
    elif key == "usage":
        case.usage = {k: int(v) for k, v in _pairs(value).items()}
    elif key == "logprobs":
        case.logprobs = {value.split()[0]: _strings(value)}
    elif key in ("logprob", "alternatives", "status"):
        setattr(case, key, float(value) if key == "logprob" else int(value))
    elif key == "alone":
        case.alone = True
    elif key == "path":
        case.path = value
    elif key == "stop":
        case.stop = json.loads(value)
    elif key in ("blocks", "calls", "message", "answer", "lists"):
        setattr(case, key, expand(json.loads(value)))
    else:
        raise ValueError(f"unknown keyword {key!r}")


def _finish(case, state):
    """What follows from the lines together."""
    whole = {"model": "deepseek-flash"} | _APIS[case.api][1] | expand(state["request"])
    case.request = {k: v for k, v in whole.items() if k not in state["omit"]}
    case.script = [expand(x) for x in case.script]
    # A line that looks at the prompt, or a body that is no request, leaves no place for the marker.
    conditional = any("when" in x for x in case.script if isinstance(x, dict))
    takes_marker = case.body is None or case.status != 200 or case.answer is not None
    case.alone = case.alone or conditional or not takes_marker
    if case.body is not None or case.answer is not None:
        case.runs = ("plain",)
    elif "stream" in case.request and case.request["stream"] is not None:
        case.runs = ("stream" if case.request["stream"] is True else "plain",)
    elif case.status >= 400 and not case.script:
        case.runs = case.runs[-1:]  # refused before anybody looks at `stream`
    return case


def load(file):
    """The cases in `file`."""
    lines = []
    for n, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        if line.startswith((" ", "\t")):
            lines[-1][1] += " " + line.strip()
        elif line and not line.startswith("#"):
            lines.append([n, line])
    out = []
    for n, line in lines:
        key, _, value = line.partition(" ")
        try:
            if key == "case":
                api = file.parent.name
                case = Case(name=value.strip(), api=api, path=_APIS[api][0])
                out.append((case, {"request": {}, "omit": []}))
            else:
                _take(*out[-1], key, value.strip())
        except (ValueError, AssertionError, IndexError) as error:
            raise ValueError(f"{file.name}:{n}: {line[:100]}: {error}") from error
    return [_finish(*x) for x in out]


def load_all(folder):
    cases = [case for file in sorted(Path(folder).rglob("*.case")) for case in load(file)]
    names = [case.name for case in cases]
    assert len(set(names)) == len(names), "case names are unique"
    return cases


def marker(case, run):
    """Appended to the last user message, so that a case gets its own lines of a shared script."""
    return "" if case.alone or not case.takes_script else f" [[{case.name}/{run}]]"


def script_lines(case, run):
    """The script of a run, bound to its marker."""
    mark = marker(case, run)
    lines = [{"out": x} if isinstance(x, str) else dict(x) for x in case.script]
    return [x | ({"when": {"last": mark.strip()}} if mark else {}) for x in lines]


def _mark(request, mark):
    """Appends `mark` to the last words of the user's side."""
    for field in ("input", "prompt"):
        if isinstance(request.get(field), str):
            request[field] += mark
            return
    said = request["input"] if "input" in request else request["messages"]
    last = [m for m in said if m.get("role") in ("user", "developer", "tool")][-1]
    if isinstance(last["content"], list):
        text = [p for p in last["content"] if p["type"] in ("text", "input_text")][-1]
        text["text"] += mark
    else:
        last["content"] += mark


def request_body(case, run):
    """The bytes that `run` of the case sends."""
    if case.body is not None:
        return case.body
    request = json.loads(json.dumps(case.request))
    if run == "stream":
        request["stream"] = True
        if case.usage and case.api in ("chat", "completions") and "stream_options" not in request:
            request["stream_options"] = {"include_usage": True}
    if mark := marker(case, run):
        _mark(request, mark)
    return json.dumps(request, ensure_ascii=False).encode("utf-8", "surrogatepass")
