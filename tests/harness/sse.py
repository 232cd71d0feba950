"""Reads the event stream of a chat completion and holds it to what every such stream promises
(spec http-api.md §2.3).
"""

import json
from dataclasses import dataclass, field


def frames(text):
    """(kind, text) of each frame of a whole event stream; kind is data, event or comment."""
    assert text == "" or text.endswith("\n\n"), f"unfinished frame at the end: {text[-80:]!r}"
    out = []
    for frame in text.split("\n\n")[:-1]:
        for line in frame.split("\n"):
            if line.startswith(":"):
                out.append(("comment", line[1:].strip()))
            else:
                name, colon, value = line.partition(": ")
                assert colon and name in ("data", "event"), f"bad line {line!r}"
                out.append((name, value))
    return out


class FrameReader:
    """Frames from pieces of bytes as they arrive."""

    def __init__(self, pieces):
        self._pieces = pieces
        self._buffer = b""

    def __iter__(self):
        for piece in self._pieces:
            self._buffer += piece
            *whole, self._buffer = self._buffer.split(b"\n\n")
            for frame in whole:
                yield from frames(frame.decode() + "\n\n")


@dataclass
class Choice:
    """One choice of an answer, put together from its chunks or taken from a whole body."""

    reasoning: str | None = None
    content: str | None = None
    finish: str | None = None
    stop: str | None = None  # Messages: the stop string that was found
    blocks: list = field(default_factory=list)  # Messages: all of them
    logprobs: dict = field(default_factory=dict)  # "content" / "reasoning_content" -> entries
    deltas: list = field(default_factory=list)  # ("reasoning" | "content", text) as they came
    calls: list = field(default_factory=list)  # [name, text of the arguments]


@dataclass
class Answer:
    choices: dict = field(default_factory=dict)  # index -> Choice
    usage: dict | None = None
    usage_has_own_chunk: bool = False
    error: dict | None = None
    identity: tuple = ()
    message: dict = field(default_factory=dict)  # top-level members, of Messages: of the message
    n_comments: int = 0
    done: bool = False


def _add_delta(choice, delta):
    assert set(delta) <= {"role", "content", "reasoning_content", "tool_calls"}, delta
    for part in delta.get("tool_calls", []):
        if part["index"] == len(choice.calls):
            assert part["id"] and part["type"] == "function", part
            choice.calls.append([part["function"]["name"], ""])
        assert part["index"] == len(choice.calls) - 1, part
        choice.calls[-1][1] += part["function"]["arguments"]
    texts = {k: delta.get(k) for k in ("reasoning_content", "content")}
    assert not (
        texts["content"] and texts["reasoning_content"]
    ), f"both texts in one delta: {delta}"
    for key, kind in (("reasoning_content", "reasoning"), ("content", "content")):
        if texts[key] is not None:
            setattr(choice, kind, (getattr(choice, kind) or "") + texts[key])
        if texts[key]:
            choice.deltas.append((kind, texts[key]))


def _add_choice(answer, part):
    index = part["index"]
    first = index not in answer.choices
    choice = answer.choices.setdefault(index, Choice())
    assert choice.finish is None, f"choice {index} goes on after its finish reason"
    assert ("role" in part["delta"]) == first, f"role belongs into the first chunk only: {part}"
    if first:
        assert part["delta"]["role"] == "assistant"
    _add_delta(choice, part["delta"])
    for key, entries in (part.get("logprobs") or {}).items():
        choice.logprobs.setdefault(key, []).extend(entries or [])
    choice.finish = part["finish_reason"]


def _add_chunk(answer, chunk):
    if "error" in chunk:
        assert set(chunk["error"]) >= {"message", "type", "param", "code"}, chunk
        answer.error = chunk["error"]
        return
    assert chunk["object"] == "chat.completion.chunk"
    identity = (chunk["id"], chunk["created"], chunk["model"], chunk.get("system_fingerprint"))
    answer.identity = answer.identity or identity
    assert identity == answer.identity, "id, created and model stay the same in a stream"
    assert answer.usage is None, "nothing comes after the usage"
    shared = {k: v for k, v in chunk.items() if k not in ("choices", "usage")}
    before = {k: v for k, v in answer.message.items() if k not in ("choices", "usage")}
    assert before in ({}, shared), "other members are the same in every chunk"
    answer.message |= chunk
    for part in chunk["choices"]:
        _add_choice(answer, part)
    answer.usage = chunk.get("usage")
    answer.usage_has_own_chunk = not chunk["choices"]
    if answer.usage is not None:
        assert all(
            c.finish for c in answer.choices.values()
        ), "usage comes after every finish reason"


def read_stream(text):
    """The answer in a whole event stream."""
    answer = Answer()
    for kind, value in frames(text):
        assert not answer.done, f"something after [DONE]: {kind} {value!r}"
        assert kind != "event", "chat events have no name"
        if kind == "comment":
            answer.n_comments += 1
        elif value == "[DONE]":
            answer.done = True
        else:
            assert answer.error is None, f"a chunk after the error: {value!r}"
            _add_chunk(answer, json.loads(value))
    if answer.error is None:
        assert answer.done, "no [DONE]"
        assert answer.choices and all(
            c.finish for c in answer.choices.values()
        ), "a choice without its end"
    return answer


def read_body(body):
    """The answer in a non-streaming body."""
    whole = json.loads(body)
    assert whole["object"] == "chat.completion"
    answer = Answer(usage=whole["usage"], done=True, message=whole)
    answer.identity = (
        whole["id"],
        whole["created"],
        whole["model"],
        whole.get("system_fingerprint"),
    )
    for i, part in enumerate(whole["choices"]):
        assert part["index"] == i, "choices are in the order of their index"
        message = part["message"]
        assert message["role"] == "assistant"
        assert isinstance(message["content"], str) or "tool_calls" in message
        answer.choices[i] = Choice(
            reasoning=message.get("reasoning_content"),
            content=message["content"],
            finish=part["finish_reason"],
            logprobs={k: v for k, v in (part["logprobs"] or {}).items() if v},
            calls=[
                [c["function"]["name"], c["function"]["arguments"]]
                for c in message.get("tool_calls", [])
            ],
        )
    return answer


def counts(usage):
    """Tokens by kind: prompt (cached ones included), completion, cached, reasoning."""
    prompt, completion = usage["prompt_tokens"], usage["completion_tokens"]
    assert usage["total_tokens"] == prompt + completion
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    assert usage["prompt_cache_hit_tokens"] == cached
    assert usage["prompt_cache_miss_tokens"] == prompt - cached >= 0
    reasoning = usage.get("completion_tokens_details", {}).get("reasoning_tokens")
    return {
        "prompt": prompt,
        "completion": completion,
        "cached": cached,
        "reasoning": reasoning,
    }


def merged(deltas):
    """Neighbouring deltas of one kind made one."""
    out = []
    for kind, text in deltas:
        if out and out[-1][0] == kind:
            out[-1] = (kind, out[-1][1] + text)
        else:
            out.append((kind, text))
    return out
