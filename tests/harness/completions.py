"""Reads the answers of Completions, streamed or whole (spec http-api.md §3)."""

import json

from harness import sse


def _identity(body):
    assert body["object"] == "text_completion"
    return (body["id"], body["created"], body["model"], body["system_fingerprint"])


def _add(answer, part):
    choice = answer.choices.setdefault(part["index"], sse.Choice())
    assert choice.finish is None, f"choice {part['index']} goes on after its finish reason"
    choice.content = (choice.content or "") + part["text"]
    if part["text"]:
        choice.deltas.append(("content", part["text"]))
    for key, values in (part["logprobs"] or {}).items():
        choice.logprobs.setdefault(key, []).extend(values)
    if "prompt_logprobs" in part:
        choice.logprobs["prompt_logprobs"] = part["prompt_logprobs"]
    choice.finish = part["finish_reason"]


def read_stream(text):
    """The answer in a whole event stream."""
    answer = sse.Answer()
    for kind, value in sse.frames(text):
        assert not answer.done, f"something after [DONE]: {kind} {value!r}"
        assert kind != "event", "events of completions have no name"
        if kind == "comment":
            answer.n_comments += 1
        elif value == "[DONE]":
            answer.done = True
        else:
            assert answer.error is None, f"a chunk after the error: {value!r}"
            chunk = json.loads(value)
            if "error" in chunk:
                answer.error = chunk["error"]
                continue
            answer.identity = answer.identity or _identity(chunk)
            assert _identity(chunk) == answer.identity
            assert answer.usage is None, "nothing comes after the usage"
            for part in chunk["choices"]:
                _add(answer, part)
            answer.usage = chunk.get("usage")
            answer.usage_has_own_chunk = not chunk["choices"]
    if answer.error is None:
        assert answer.done, "no [DONE]"
        assert all(c.finish for c in answer.choices.values()), "a choice without its end"
    return answer


def read_body(body):
    """The answer in a non-streaming body."""
    whole = json.loads(body)
    answer = sse.Answer(usage=whole["usage"], done=True, identity=_identity(whole))
    for i, part in enumerate(whole["choices"]):
        assert part["index"] == i, "choices are in the order of their index"
        _add(answer, part)
    return answer
