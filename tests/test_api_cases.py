"""Runs the text cases of tests/api: each against a real server, streaming and not, with the same
answer expected.
"""

import contextlib
import json
from pathlib import Path

import pytest

from harness import case as cases
from harness import completions, messages, raw_http, responses, sse
from harness.server import Server, Shared

READERS = {"chat": sse, "messages": messages, "completions": completions, "responses": responses}
ID_PREFIX = {
    "chat": "chatcmpl-",
    "messages": "msg_",
    "completions": "cmpl-",
    "responses": "resp_",
}

CASES = cases.load_all(Path(__file__).parent / "api")
RUNS = [(c, r) for c in CASES for r in c.runs]


class Servers:
    """One server per set of options for the cases that can share, started when the first one needs
    it.
    """

    def __init__(self, stack):
        self._stack = stack
        self._by_options = {}

    def shared(self, options):
        if options not in self._by_options:
            lines = []
            for case, run in RUNS:
                if case.options == options and not case.alone:
                    lines += cases.script_lines(case, run)
            shared = Shared(script=lines, options=options)
            self._by_options[options] = self._stack.enter_context(shared)
        return self._by_options[options].lent()


@pytest.fixture(scope="module")
def servers():
    with contextlib.ExitStack() as stack:
        yield Servers(stack)


@pytest.mark.parametrize("case,run", [pytest.param(c, r, id=f"{c.name}-{r}") for c, r in RUNS])
def test_case(servers, case, run):
    if case.alone:
        with Server(script=cases.script_lines(case, run), options=case.options) as server:
            check(case, run, server)
    else:
        with servers.shared(case.options) as server:
            check(case, run, server)


def check(case, run, server):
    headers = [(name, value or None) for name, value in case.headers]
    body = cases.request_body(case, run)
    response = raw_http.once(server.port, raw_http.request_bytes("POST", case.path, headers, body))
    check_headers(case, response)
    failed = any(kind == "error" for kind, _ in case.events.get(0, ()))
    if run == "stream" and failed:
        assert response.status == 200, response.body
    else:
        assert response.status == case.status, response.body
    if response.status >= 400:
        is_anthropic = case.api == "messages" or "/messages/" in case.path
        check_error(case, response.anthropic_error() if is_anthropic else response.error())
        return
    if case.answer is not None:
        got = json.loads(response.body)
        got = got[0] if isinstance(got, list) else got
        assert {key: got.get(key) for key in case.answer} == case.answer
        return
    if run == "stream":
        assert response.header("content-type").startswith("text/event-stream")
        assert response.header("cache-control") == "no-cache"
        answer = READERS[case.api].read_stream(response.body.decode())
    else:
        assert response.header("content-type").startswith("application/json")
        answer = READERS[case.api].read_body(response.body)
    check_answer(case, run, answer)


def check_headers(case, response):
    assert response.header("x-request-id"), response.headers
    for name, value in case.header_is:
        assert response.header(name) == (value or None), (name, response.headers)


def check_error(case, error):
    assert (
        not case.events or case.events[0][-1][0] == "error"
    ), f"an error instead of an answer: {error}"
    for key, value in case.error.items():
        assert error[key] == value, error
    for text in case.says:
        assert text in error["message"], error


def check_answer(case, run, answer):
    if answer.identity:  # absent if an error was all that came
        assert case.body is not None or answer.identity[2] == case.request["model"]
        assert answer.identity[0].startswith(ID_PREFIX[case.api])
    if case.events and answer.error is None:
        assert sorted(answer.choices) == sorted(case.events), "choices"
    for index, expected in case.events.items():
        check_choice(case, run, answer, answer.choices.get(index, sse.Choice()), expected)
    if case.usage:
        check_usage(case, run, answer.usage)
    if case.stop is not None:
        assert answer.choices[0].stop == case.stop
    for key, value in case.message.items():
        assert (key in answer.message) == (value is not None), (key, answer.message)
        assert answer.message.get(key) == value, (key, answer.message)
    for key, value in case.lists.items():
        assert answer.choices[0].logprobs.get(key) == value, (key, answer.choices[0].logprobs)
    if case.calls is not None:
        got = [[name, json.loads(text)] for name, text in answer.choices[0].calls]
        assert got == case.calls
    if case.blocks is not None:
        got = [{k: v for k, v in b.items() if k != "signature"} for b in answer.choices[0].blocks]
        assert got == case.blocks
    if run == "stream" and answer.error is None and case.api != "messages":
        # Usage that was asked for has its own chunk, else the last one (spec recipe.md §8.7).
        options = json.loads(cases.request_body(case, run)).get("stream_options") or {}
        assert answer.usage is not None
        assert answer.usage_has_own_chunk == options.get("include_usage", False)
    if case.logprobs or case.logprob is not None:
        check_logprobs(case, answer.choices[0])


def check_choice(case, run, answer, choice, expected):
    texts = {"reasoning": "", "content": ""}
    for kind, text in expected:
        if kind in texts:
            texts[kind] += text
    last_kind, last = expected[-1]
    if last_kind == "error":
        assert run == "stream", "a whole answer instead of an error"
        assert answer.error and answer.error["type"] == last, answer.error
        assert choice.finish is None
        check_error(case, answer.error)
    else:
        assert (last_kind, choice.finish) == ("finish", last)
    assert (choice.content or "") == texts["content"]
    assert (choice.reasoning or "") == texts["reasoning"]
    if run == "stream":
        assert sse.merged(choice.deltas) == [e for e in expected if e[0] in texts]
        if case.chunks is not None:
            assert choice.deltas == case.chunks


def check_usage(case, run, usage):
    assert usage is not None, "no usage"
    counts = messages.counts if case.api == "messages" else sse.counts
    got = counts(usage)
    got["prompt"] -= len(cases.marker(case, run).encode())
    assert {k: got[k] for k in case.usage} == case.usage


def check_logprobs(case, choice):
    for key, tokens in case.logprobs.items():
        assert [entry["token"] for entry in choice.logprobs[key]] == tokens
    for entries in choice.logprobs.values():
        for entry in entries:
            assert set(entry) == {"token", "logprob", "bytes", "top_logprobs"}
            assert entry["logprob"] <= 0
            if case.logprob is not None:
                assert entry["logprob"] == pytest.approx(case.logprob)
            others = [other["token"] for other in entry["top_logprobs"]]
            assert len(set(others)) == len(others), "alternatives are distinct"
            if case.alternatives is not None:
                assert len(others) == case.alternatives
