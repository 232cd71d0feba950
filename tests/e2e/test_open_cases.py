"""Open cases that show only over a connection (spec open-cases.md §3). The table of all: tests/named-cases.md."""

import json

from harness import metrics, sse
from harness.raw_http import Connection, chat_request, once
from harness.server import Server, wait_until

DSML = "｜DSML｜"
OFF = {"thinking": {"type": "disabled"}}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
CALL = f'\n\n<{DSML} calls>\n<{DSML} invoke name="f">\n</{DSML} invoke>\n</{DSML} calls>'


def test_c01_each_turn_of_a_connection_begins_afresh():
    """vllm#40801: "parser state survives into the next turn". The first turn is cut inside the marker of a call."""
    n_cut = len("look") + len("\n\n<") + 1 + len(" calls>\n<") + 1
    script = ["look" + CALL, "plain <text", "look" + CALL, "</think>so"]
    with Server(script=script) as server, Connection(server.port) as c:
        c.send(chat_request(tools=TOOLS, max_tokens=n_cut, stream=True, **OFF))
        first = sse.read_stream(c.read().body.decode()).choices[0]
        assert (first.content, first.finish) == ("look", "length")
        c.send(chat_request(tools=TOOLS, stream=True, **OFF))
        second = sse.read_stream(c.read().body.decode()).choices[0]
        assert (second.content, second.finish) == ("plain <text", "stop")
        c.send(chat_request(tools=TOOLS, **OFF))
        third = json.loads(c.read().body)["choices"][0]
        assert third["finish_reason"] == "tool_calls" and len(third["message"]["tool_calls"]) == 1
        c.send(chat_request(tools=TOOLS))
        message = json.loads(c.read().body)["choices"][0]["message"]
        assert (message["content"], message["reasoning_content"]) == ("so", "")


def accepted(server):
    return metrics.running(server) + metrics.value(server, "requests_waiting")


def test_c26_a_client_that_sends_again_leaves_nothing_behind():
    """tale#3396: "four copies queued, the first answered after 1,298 s to nobody"."""
    script = [{"out": "x", "first_ms": 600_000, "times": "always"}]
    with Server(script=script, options=["--heartbeat", "100ms"]) as server:
        for _ in range(4):
            with Connection(server.port) as c:
                c.send(chat_request(stream=True))
                pieces = c.pieces(c.read_head())
                assert next(pieces) == next(pieces) == b": keep-alive\n\n"  # what makes it wait, not send again
                assert accepted(server) == 1
            wait_until(lambda: accepted(server) == 0, 20, "nothing of it left")
        assert metrics.value(server, "client_disconnects_total") == 4


def test_c24_missing_reasoning_is_told_in_a_header():
    """new-api#4806: it costs the cached prefix, so the client is told."""
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turn = {"role": "assistant", "content": "", "tool_calls": [call]}
    rest = [{"role": "user", "content": "q"}, {"role": "tool", "tool_call_id": "a", "content": "r"}]
    with Server(script=[{"out": "</think>so", "times": "always"}]) as server:
        for reasoning, told in (({"reasoning_content": "why"}, None), ({}, "1")):
            answer = once(
                server.port, chat_request(tools=TOOLS, messages=[rest[0], turn | reasoning, rest[1]])
            )
            assert answer.status == 200
            assert answer.header("x-sluice-missing-reasoning") == told
