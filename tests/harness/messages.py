"""Reads the answers of Messages, streamed or whole, and holds them to what every such answer
promises (spec http-api.md §5.3): one message_start in front, blocks one after the other, one end.
"""

import json

from harness import sse

_KINDS = {"thinking": ("thinking_delta", "thinking"), "text": ("text_delta", "text")}


def _events(text):
    """(name, data) of each event of a whole stream."""
    parts = sse.frames(text)
    assert all(kind != "comment" for kind, _ in parts), "Messages has no comments"
    names = [value for kind, value in parts if kind == "event"]
    data = [json.loads(value) for kind, value in parts if kind == "data"]
    assert len(names) == len(data) == len(parts) / 2, "each event has a name and data"
    for name, value in zip(names, data):
        assert value["type"] == name, (name, value)
    return data


def _check_usage(usage):
    assert set(usage) >= {
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "output_tokens",
    }, usage


class _Stream:
    def __init__(self):
        self.answer = sse.Answer()
        self.choice = sse.Choice()
        self.blocks = []
        self.open = None
        self.n_pings = 0
        self.stopped = False

    def take(self, event):
        kind = event["type"]
        assert not self.stopped and self.answer.error is None, f"something behind the end: {event}"
        if kind == "error":
            assert set(event) == {"type", "error", "request_id"}, event
            self.answer.error = event["error"]
        elif kind == "message_start":
            self._start(event["message"])
        else:
            assert self.answer.identity, f"{kind} in front of message_start"
            getattr(self, "_" + kind)(event)

    def _start(self, message):
        assert not self.answer.identity, "a second message_start"
        assert message["content"] == [] and message["stop_reason"] is None, message
        _check_usage(message["usage"])
        assert message["usage"]["output_tokens"] == 0
        self.started_with = message["usage"]
        self.answer.identity = (message["id"], None, message["model"], None)
        self.answer.message = message
        self.answer.choices[0] = self.choice

    def _ping(self, _):
        self.n_pings += 1

    def _content_block_start(self, event):
        assert self.open is None, "a block begins inside another one"
        assert event["index"] == len(self.blocks), event
        self.open = event["content_block"]
        self.blocks.append(self.open)

    def _content_block_delta(self, event):
        assert self.open is not None and event["index"] == len(self.blocks) - 1, event
        delta = event["delta"]
        if delta["type"] == "signature_delta":
            assert self.open["type"] == "thinking" and delta["signature"], event
            self.open["signature"] = delta["signature"]
        elif delta["type"] == "input_json_delta":
            assert self.open["type"] == "tool_use", event
            self.open["json"] = self.open.get("json", "") + delta["partial_json"]
        else:
            wanted, field = _KINDS[self.open["type"]]
            assert delta["type"] == wanted and delta[field], event
            self.open[field] += delta[field]
            kind = "reasoning" if field == "thinking" else "content"
            self.choice.deltas.append((kind, delta[field]))

    def _content_block_stop(self, event):
        assert self.open is not None and event["index"] == len(self.blocks) - 1, event
        if self.open["type"] == "thinking":
            assert self.open["signature"], "a thinking block without a signature"
        self.open = None

    def _message_delta(self, event):
        assert self.open is None, "a block was not closed"
        assert self.choice.finish is None, "a second message_delta"
        self.choice.finish = event["delta"]["stop_reason"]
        self.choice.stop = event["delta"]["stop_sequence"]
        _check_usage(event["usage"])
        for field in ("input_tokens", "cache_read_input_tokens"):
            assert event["usage"][field] == self.started_with[field], (event, self.started_with)
        self.answer.usage = event["usage"]

    def _message_stop(self, _):
        assert self.choice.finish, "message_stop without message_delta"
        self.stopped = self.answer.done = True


def _collect(choice, blocks):
    for block in blocks:
        if block["type"] == "thinking":
            choice.reasoning = (choice.reasoning or "") + block["thinking"]
        elif block["type"] == "text":
            choice.content = (choice.content or "") + block["text"]
        else:
            assert block["type"] == "tool_use" and block["id"] and block["name"], block
            choice.calls.append([block["name"], block.pop("json", json.dumps(block["input"]))])
    choice.blocks = blocks


def read_stream(text):
    """The answer in a whole event stream."""
    stream = _Stream()
    for event in _events(text):
        stream.take(event)
    _collect(stream.choice, stream.blocks)
    if stream.answer.error is None:
        assert stream.answer.done, "no message_stop"
        assert stream.n_pings >= (1 if stream.blocks else 0), "no ping"
    return stream.answer


def read_body(body):
    """The answer in a non-streaming body."""
    whole = json.loads(body)
    assert (whole["type"], whole["role"]) == ("message", "assistant")
    _check_usage(whole["usage"])
    answer = sse.Answer(usage=whole["usage"], done=True, message=whole)
    answer.identity = (whole["id"], None, whole["model"], None)
    answer.choices[0] = sse.Choice(finish=whole["stop_reason"], stop=whole["stop_sequence"])
    _collect(answer.choices[0], whole["content"])
    return answer


def counts(usage):
    """Tokens by kind: prompt (cached ones included), completion, cached."""
    assert usage["cache_creation_input_tokens"] == 0
    return {
        "prompt": usage["input_tokens"] + usage["cache_read_input_tokens"],
        "completion": usage["output_tokens"],
        "cached": usage["cache_read_input_tokens"],
    }
