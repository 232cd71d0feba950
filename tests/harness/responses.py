"""Reads the event stream or the body of a response (Responses API) and holds it to what every such
answer promises (spec http-api.md §4, recipe.md §8.9). Gives the same Answer as harness.sse.
"""

import json

from harness.sse import Answer, Choice

END = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}
_DELTAS = {
    "response.reasoning_text.delta": ("reasoning", "text"),
    "response.output_text.delta": ("content", "text"),
    "response.function_call_arguments.delta": (None, "arguments"),
    "response.custom_tool_call_input.delta": (None, "input"),
}


def events(text):
    """The data of each event, and None for each comment."""
    assert text.endswith("\n\n"), f"unfinished event at the end: {text[-80:]!r}"
    out = []
    for frame in text.split("\n\n")[:-1]:
        if frame.startswith(":"):
            out.append(None)
            continue
        name, data = frame.split("\n")
        assert name.startswith("event: ") and data.startswith("data: "), frame
        event = json.loads(data[len("data: ") :])
        assert event["type"] == name[len("event: ") :], frame
        out.append(event)
    return out


class _Stream:
    """The state of a stream, so that an event can be wrong."""

    def __init__(self):
        self.open = None  # the item that was added and is not done
        self.text = ""  # of the open item's deltas
        self.n_done_events = 0  # of the open item
        self.done = []

    def take(self, event, deltas):
        kind = event["type"]
        if "item_id" in event:
            assert self.open and event["item_id"] == self.open["id"], event
        if "output_index" in event:
            assert event["output_index"] == len(self.done), event
        if kind == "response.output_item.added":
            assert self.open is None, "an item inside another"
            assert event["item"]["status"] == "in_progress"
            self.open, self.text, self.n_done_events = event["item"], "", 0
        elif kind in _DELTAS:
            self.text += event["delta"]
            if _DELTAS[kind][0]:
                deltas.append((_DELTAS[kind][0], event["delta"]))
        elif kind.endswith("_text.done") or kind.endswith("arguments.done"):
            whole = event["text"] if "text" in event else event["arguments"]
            assert whole == self.text, "the whole text is not the sum of its deltas"
            self.n_done_events += 1
        elif kind == "response.output_item.done":
            item = event["item"]
            assert item["id"] == self.open["id"] and item["status"] != "in_progress"
            assert item["type"] == "tool_search_call" or self.n_done_events == 1, item
            self.done.append(item)
            self.open = None


def _usage(response):
    usage = response["usage"]
    if usage is None:
        return None
    cached = usage["input_tokens_details"]["cached_tokens"]
    return {
        "prompt_tokens": usage["input_tokens"],
        "completion_tokens": usage["output_tokens"],
        "total_tokens": usage["total_tokens"],
        "prompt_tokens_details": {"cached_tokens": cached},
        "prompt_cache_hit_tokens": cached,
        "prompt_cache_miss_tokens": usage["input_tokens"] - cached,
        "completion_tokens_details": usage["output_tokens_details"],
    }


def _answer(response, deltas=()):
    """The texts of a finished response."""
    assert response["object"] == "response" and response["id"].startswith("resp_")
    answer = Answer(usage=_usage(response), done=True)
    answer.identity = (response["id"], response["created_at"], response["model"], None)
    choice = answer.choices.setdefault(0, Choice(deltas=list(deltas)))
    if response["status"] == "failed":
        error = response["error"]
        answer.error = error | {"type": error["code"], "param": None}
    else:
        assert response["error"] is None
        choice.finish = response["status"]
    incomplete = response["incomplete_details"] is not None
    assert incomplete == (response["status"] == "incomplete")
    for item in response["output"]:
        if item["type"] in ("reasoning", "message"):
            kind = "reasoning" if item["type"] == "reasoning" else "content"
            (part,) = item["content"]
            setattr(choice, kind, (getattr(choice, kind) or "") + part["text"])
            if part.get("logprobs"):
                choice.logprobs["content"] = part["logprobs"]
        elif item["type"] == "function_call":
            choice.calls.append([item["name"], item["arguments"]])
    return answer


def read_stream(text):
    """The answer in a whole event stream."""
    got = events(text)
    whole = [e for e in got if e is not None]
    assert [e["sequence_number"] for e in whole] == list(range(len(whole)))
    assert [e["type"] for e in whole[:2]] == ["response.created", "response.in_progress"]
    ends = [e for e in whole if e["type"] in END]
    assert len(ends) == 1 and whole[-1] is ends[0] and got[-1] is ends[0], "exactly one end"
    stream, deltas = _Stream(), []
    for event in whole:
        stream.take(event, deltas)
        if event["type"] in ("response.created", "response.in_progress"):
            assert stream.open is None, "a sign of life inside an item"
            assert event["response"]["status"] == "in_progress"
            assert event["response"]["output"] == [] or stream.done
    final = ends[0]["response"]
    assert final["status"] == END[ends[0]["type"]]
    assert final["output"] == stream.done, "the last event repeats the items as they were done"
    if final["status"] == "failed" and stream.open:
        kind = "reasoning" if stream.open["type"] == "reasoning" else "content"
        answer = _answer(final, deltas)
        setattr(answer.choices[0], kind, stream.text)
    else:
        assert stream.open is None, "an item without its end"
        answer = _answer(final, deltas)
    answer.n_comments = got.count(None)
    return answer


def read_body(body):
    """The answer in a non-streaming body."""
    response = json.loads(body)
    assert response["status"] in ("completed", "incomplete")
    return _answer(response)
