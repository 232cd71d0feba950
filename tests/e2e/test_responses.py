"""The Responses API over sockets: event streams byte by byte, signs of life, compressed bodies, the
paths of stored responses.
"""

import gzip
import json

from harness import metrics, responses
from harness.raw_http import Connection, once, request_bytes
from harness.server import Server, wait_until

PATH = "/v1/responses"
OFF = {"reasoning": {"effort": "none"}}
HANG = {"out": "x" * 10, "hang_after": 3, "times": "always"}
NEVER = {"out": "x", "hang_after": 0, "times": "always"}


def body(**fields):
    return json.dumps({"model": "deepseek-flash", "input": "hi"} | fields).encode()


def ask(port, path=PATH, headers=(), **fields):
    return once(port, request_bytes("POST", path, headers, body(**fields)))


def made(port, **fields):
    """A response that was made and may be kept."""
    answer = ask(port, **fields)
    assert answer.status == 200, answer.body
    return answer.json()


def test_c17_the_bytes_of_a_stream():
    """C17: each data object names its type, the last one nests the whole response."""
    with Server(script=["so</think>Hi"]) as server:
        response = ask(server.port, stream=True)
        assert response.header("content-type").startswith("text/event-stream")
        text = response.body.decode()
        answer = responses.read_stream(text)
        assert (answer.choices[0].reasoning, answer.choices[0].content) == ("so", "Hi")
        assert "[DONE]" not in text
        kinds = [e["type"].removeprefix("response.") for e in responses.events(text)]
        assert [k for i, k in enumerate(kinds) if i == 0 or k != kinds[i - 1]] == [
            "created",
            "in_progress",
            "output_item.added",
            "content_part.added",
            "reasoning_text.delta",
            "reasoning_text.done",
            "content_part.done",
            "output_item.done",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "completed",
        ]


def test_c25_signs_of_life_are_events_and_the_stream_still_ends():
    """C25: a long prefill; comments do not keep Codex waiting."""
    options = ["--heartbeat", "200ms", "--request-timeout", "1500ms"]
    with Server(script=[NEVER], options=options) as server:
        text = ask(server.port, stream=True).body.decode()
        answer = responses.read_stream(text)
        assert answer.error["code"] == "server_error" and answer.n_comments == 0
        kinds = [e["type"] for e in responses.events(text)]
        assert kinds.count("response.in_progress") >= 4
        assert kinds[-1] == "response.failed"


def test_c25_a_silence_inside_an_item_is_filled_with_empty_deltas():
    """Codex counts comments as silence, and in_progress belongs between items."""
    options = ["--heartbeat", "200ms", "--request-timeout", "1500ms"]
    with Server(script=[HANG], options=options) as server:
        answer = responses.read_stream(ask(server.port, stream=True, **OFF).body.decode())
        assert answer.n_comments == 0 and answer.choices[0].content == "xxx"
        assert [text for _, text in answer.choices[0].deltas].count("") >= 3


def test_the_first_event_comes_before_the_first_token():
    with Server(script=[NEVER], options=["--heartbeat", "200ms"]) as server:
        with Connection(server.port) as c:
            c.send(request_bytes("POST", PATH, (), body(stream=True)))
            pieces = c.pieces(c.read_head())
            text = next(pieces).decode()
            assert text.startswith("event: response.created\n")
        metrics.wait_running(server, 0)


def test_compressed_bodies():
    with Server(script=[{"out": "</think>a", "times": "always"}]) as server:
        packed = gzip.compress(body())
        data = request_bytes("POST", PATH, [("Content-Encoding", "gzip")], packed)
        assert once(server.port, data).status == 200


def test_a_large_body_goes_on_from_a_stored_response():
    """Prepared on the pool's threads, where the store is read, too."""
    with Server(script=["so</think>first", {"when": {"prompt": "first"}, "out": "second"}]) as server:
        first = made(server.port)
        long = [{"role": "user", "content": "y" * 500_000}]
        second = made(server.port, previous_response_id=first["id"], input=long, **OFF)
        assert second["output"][0]["content"][0]["text"] == "second"
        page = once(server.port, request_bytes("GET", f"{PATH}/{second['id']}/input_items?limit=1"))
        assert page.json()["data"][0]["content"] == long[0]["content"]


def test_paths_of_a_stored_response():
    with Server(script=[{"out": "</think>a", "times": "always"}]) as server:
        for root in (PATH, "/responses"):
            first = made(server.port, store=True)
            one = f"{root}/{first['id']}"

            def call(method, path):
                return once(server.port, request_bytes(method, path), head=method == "HEAD")

            assert call("GET", one).json() == first
            assert call("HEAD", one).status == 200
            assert call("OPTIONS", one).header("allow") == "GET, HEAD, DELETE, OPTIONS"
            assert call("PUT", one).status == 405
            assert call("GET", f"{one}/input_items").json()["data"][0]["role"] == "user"
            assert call("POST", f"{one}/input_items").status == 405
            assert call("GET", f"{one}/other").status == 404
            refused = call("POST", f"{one}/cancel")
            assert refused.status == 400 and "synchronous" in refused.error()["message"]
            assert call("GET", f"{one}?stream=true").error()["param"] == "stream"
            assert call("GET", f"{one}?include[]=x").status == 200
            deleted = {"id": first["id"], "object": "response", "deleted": True}
            assert call("DELETE", one).json() == deleted
            for method, path in (("GET", one), ("DELETE", one), ("POST", f"{one}/cancel")):
                gone = call(method, path)
                assert gone.status == 404 and first["id"] in gone.error()["message"]
            assert call("GET", f"{root}/").status == 404


def test_pages_of_input_items_are_checked():
    with Server(script=["</think>a"]) as server:
        items = f"{PATH}/{made(server.port)['id']}/input_items"
        for query, param in (("limit=0", "limit"), ("limit=x", "limit"), ("limit=101", "limit"),
                             ("order=up", "order"), ("after=nobody", "after")):  # fmt: skip
            refused = once(server.port, request_bytes("GET", f"{items}?{query}"))
            assert refused.status == 400 and refused.error()["param"] == param
        page = once(server.port, request_bytes("GET", f"{items}?order=asc&limit=100")).json()
        assert page["object"] == "list" and not page["has_more"]
        assert page["first_id"] == page["last_id"] == page["data"][0]["id"]


def test_stored_responses_are_counted_and_grow_old():
    options = ["--stored-response-age", "3s"]
    with Server(script=[{"out": "</think>a", "times": "always"}], options=options) as server:
        first = made(server.port)
        wait_until(lambda: metrics.value(server, "stored_responses") == 1, 20, "one kept")
        assert metrics.value(server, "stored_response_bytes") > 0
        wait_until(lambda: metrics.value(server, "stored_responses") == 0, 10, "none kept")
        assert once(server.port, request_bytes("GET", f"{PATH}/{first['id']}")).status == 404


def test_a_client_that_leaves_is_not_kept():
    with Server(script=[HANG]) as server:
        with Connection(server.port) as c:
            c.send(request_bytes("POST", PATH, (), body(stream=True, **OFF)))
            c.read_head()
            wait_until(lambda: metrics.running(server) == 1, 20, "the request running")
        metrics.wait_running(server, 0)
        assert metrics.value(server, "stored_responses") == 0
