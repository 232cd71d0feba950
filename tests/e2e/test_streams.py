"""Streams over time: back-pressure, heartbeats, time limits, connection and request limits."""

import json

import pytest

from harness import metrics, sse
from harness.raw_http import Closed, Connection, chat_request, once, request_bytes
from harness.server import Server, Shared, readable, wait_until

OFF = {"thinking": {"type": "disabled"}}
N_LONG = 40_000
LONG = {"out": "x" * N_LONG, "times": "always"}
ALL_OF_IT = OFF | {"max_tokens": N_LONG + 1}
HANG = {"out": "x" * 10, "hang_after": 3, "times": "always"}


def test_slow_reader_holds_nobody_up_and_takes_no_memory():
    """A stream of 75 MB that nobody reads, and others beside it."""
    n = 300_000
    with Server(script=[{"out": "x" * n, "times": "always"}]) as server:
        with Connection(server.port, receive_buffer=4096) as slow:
            slow.send(chat_request(stream=True, max_tokens=n, **OFF))
            slow.read_head()
            before = server.rss_bytes()
            for _ in range(5):
                response = once(server.port, chat_request(stream=True, max_tokens=8_000, **OFF))
                choice = sse.read_stream(response.body.decode()).choices[0]
                assert (len(choice.content), choice.finish) == (8_000, "length")
            limit = (48 if server.is_sanitized() else 16) << 20
            assert server.rss_bytes() - before < limit
            assert metrics.running(server) == 1
            assert metrics.value(server, "slow_reader_pauses_total") >= 1
        metrics.wait_running(server, 0)


def test_slow_reader_that_reads_on_gets_everything():
    with Server(script=[LONG]) as server, Connection(server.port, receive_buffer=4096) as slow:
        slow.send(chat_request(stream=True, **ALL_OF_IT))
        wait_until(lambda: metrics.value(server, "slow_reader_pauses_total") >= 1, 10, "a pause")
        answer = sse.read_stream(slow.read().body.decode())
        assert answer.choices[0].content == "x" * N_LONG


def test_client_that_takes_nothing_is_disconnected():
    with Server(script=[LONG], options=["--write-timeout", "300ms"]) as server:
        with Connection(server.port, receive_buffer=4096) as slow:
            slow.send(chat_request(stream=True, **ALL_OF_IT))
            wait_until(lambda: metrics.running(server) == 1, 20, "the stream running")
            metrics.wait_running(server, 0, seconds=10)
            assert metrics.value(server, "client_disconnects_total") == 1


def test_one_write_per_event_gives_the_same_stream():
    """--no-sse-coalesce is for measuring; it may not change what arrives."""
    with Server(script=[{"out": "abcdefgh" * 100}], options=["--no-sse-coalesce"]) as server:
        response = once(server.port, chat_request(stream=True, **OFF))
        assert sse.read_stream(response.body.decode()).choices[0].content == "abcdefgh" * 100


@pytest.fixture(scope="module")
def shared_impatient():
    script = [
        {"when": {"last": "late"}, "out": "late", "first_ms": 900, "times": "always"},
        {"when": {"last": "never"}, "out": "x", "hang_after": 0, "times": "always"},
        {"when": {"last": "pause"}, "out": "ab", "pace_ms": 600, "times": "always"},
    ]
    options = ["--heartbeat", "200ms", "--request-timeout", "1500ms"]
    with Shared(script=script, options=options) as it:
        yield it


@pytest.fixture
def impatient(shared_impatient):
    with shared_impatient.lent() as running:
        yield running


def test_c25_heartbeats_in_a_stream_are_comments(impatient):
    response = once(impatient.port, chat_request("late", stream=True, **OFF))
    answer = sse.read_stream(response.body.decode())
    assert answer.n_comments >= 2
    assert answer.choices[0].content == "late"


def test_heartbeats_outside_a_stream_are_blank_lines(impatient):
    response = once(impatient.port, chat_request("late", **OFF))
    assert response.status == 200
    assert response.body.startswith(b"\n\n"), response.body[:20]
    assert response.json()["choices"][0]["message"]["content"] == "late"


def test_heartbeats_leave_the_connection_usable(impatient):
    with Connection(impatient.port) as c:
        for stream in (False, True, False):
            assert c.chat("late", stream=stream, **OFF).status == 200
        assert c.get("/version").status == 200


def test_error_after_heartbeats_outside_a_stream(impatient):
    """The status is gone; the body still is an error object."""
    response = once(impatient.port, chat_request("never", **OFF))
    assert response.status == 200 and response.body.startswith(b"\n")
    assert json.loads(response.body)["error"]["type"] == "timeout_error"


def test_error_after_heartbeats_in_a_stream(impatient):
    response = once(impatient.port, chat_request("never", stream=True, **OFF))
    answer = sse.read_stream(response.body.decode())
    assert answer.n_comments >= 2 and answer.error["type"] == "timeout_error"


def test_a_collected_answer_is_bounded():
    """20 alternatives a token are some 0.9 KB: 100,000 tokens of them pass the limit of 64 MiB."""
    n = 100_000
    asked = OFF | {"max_tokens": n + 1, "logprobs": True, "top_logprobs": 20}
    script = [{"out": "x" * n, "tokens_per_event": 100, "times": "always"}]
    with Server(script=script) as server:
        before = server.rss_bytes()
        response = once(server.port, chat_request(**asked))
        assert response.status == 413, response
        assert "stream" in json.loads(response.body)["error"]["message"]
        small = once(server.port, chat_request(**(asked | {"max_tokens": 2_000})))
        assert small.status == 200 and len(small.body) > 1 << 20
        limit = (512 if server.is_sanitized() else 256) << 20
        assert server.rss_bytes() - before < limit


def test_heartbeat_on_http_1_0(impatient):
    data = chat_request("late", **OFF).replace(b"HTTP/1.1", b"HTTP/1.0")
    response = once(impatient.port, data)
    assert json.loads(response.body)["choices"][0]["message"]["content"] == "late"


def test_c25_headers_of_a_stream_come_before_its_first_token():
    script = [{"out": "x", "first_ms": 600_000, "times": "always"}]
    with Server(script=script) as server, Connection(server.port) as c:
        c.send(chat_request(stream=True))
        head = c.read_head()
        assert head.status == 200 and head.header("content-type").startswith("text/event-stream")


def test_c26_disconnect_while_waiting_for_the_first_token():
    script = [{"out": "x", "first_ms": 600_000, "times": "always"}]
    with Server(script=script) as server:
        for stream in (True, False):
            with Connection(server.port) as c:
                c.send(chat_request(stream=stream))
                wait_until(
                    lambda: metrics.running(server) + metrics.value(server, "requests_waiting")
                    == 1,
                    5,
                    "the request accepted",
                )
            wait_until(
                lambda: metrics.running(server) + metrics.value(server, "requests_waiting") == 0,
                2,
                "the request cancelled",
            )


def test_disconnect_behind_pipelined_bytes():
    """Bytes of a next request hide the end of the connection; it must be seen all the same."""
    with Server(script=[HANG]) as server:
        with Connection(server.port) as c:
            c.send(chat_request(stream=True, **OFF) + b"GET /version HT")
            c.read_head()
            metrics.wait_running(server, 1)
        metrics.wait_running(server, 0)


def test_reset_cancels():
    with Server(script=[HANG]) as server:
        c = Connection(server.port)
        c.send(chat_request(stream=True, **OFF))
        c.read_head()
        metrics.wait_running(server, 1)
        c.reset()
        metrics.wait_running(server, 0)


def test_idle_connection_is_closed():
    with Server(options=["--idle-timeout", "200ms"]) as server:
        with Connection(server.port) as c:
            assert c.closed(5)
        with Connection(server.port) as c:
            assert c.get("/version").status == 200
            assert c.closed(5)


@pytest.mark.parametrize(
    "data", [b"G", b"GET /version HTTP/1.1\r\n", b"GET /version HTTP/1.1\r\nHost: 127.0.0.1\r\n"]
)
def test_slow_head_is_refused(data):
    with Server(options=["--header-timeout", "200ms"]) as server, Connection(server.port) as c:
        c.send(data)
        response = c.read()
        assert response.status == 408, response.body
        response.error()
        assert c.closed(10)


def test_slow_head_byte_by_byte_is_refused():
    """Each byte alone is quick; the sum counts (slowloris)."""
    with Server(options=["--header-timeout", "400ms"]) as server, Connection(server.port) as c:
        c.send(b"GET /version HTTP/1.1\r\nX-A: ")
        for _ in range(100):
            if readable(c.sock, 0.05):
                break
            c.send(b"a")
        assert c.read().status == 408


def test_slow_body_is_refused():
    with Server(options=["--header-timeout", "100ms", "--body-timeout", "200ms"]) as server:
        with Connection(server.port) as c:
            c.send(chat_request()[:-1])
            response = c.read()
            assert response.status == 408, response.body
            assert c.closed(10)


def test_timeouts_do_not_touch_a_running_stream():
    script = [{"out": "abcdef", "pace_ms": 200}]
    short = [
        "--idle-timeout",
        "200ms",
        "--header-timeout",
        "200ms",
        "--body-timeout",
        "200ms",
        "--write-timeout",
        "200ms",
    ]
    with Server(script=script, options=short) as server:
        response = once(server.port, chat_request(stream=True, **OFF))
        assert sse.read_stream(response.body.decode()).choices[0].content == "abcdef"


def test_connection_limit():
    with Server(options=["--max-connections", "3"]) as server:
        first = [Connection(server.port) for _ in range(3)]
        for c in first:
            assert c.get("/version").status == 200
        with Connection(server.port) as extra:
            try:
                assert extra.get("/version").status == 503
            except (Closed, OSError):
                pass  # closed at once is an answer too
        assert first[0].get("/version").status == 200
        first[1].close()

        def one_more_is_served():
            try:
                return once(server.port, request_bytes("GET", "/version")).status == 200
            except (Closed, OSError):
                return False  # the closed one is not gone yet

        wait_until(one_more_is_served, 20, "a place for another connection")
        for c in first:
            c.close()


def test_admin_port_is_reachable_when_the_public_one_is_full():
    with Server(options=["--max-connections", "2"]) as server:
        with Connection(server.port) as a, Connection(server.port) as b:
            assert a.get("/version").status == b.get("/version").status == 200
            assert once(server.admin_port, request_bytes("GET", "/health")).status == 200
            assert metrics.value(server, "connections_open") >= 2


def test_request_limit():
    with Server(script=[HANG], options=["--max-requests", "2"]) as server:
        running = []
        for _ in range(2):
            c = Connection(server.port)
            c.send(chat_request(stream=True, **OFF))
            c.read_head()
            running.append(c)
        response = once(server.port, chat_request())
        assert response.status == 503 and int(response.header("retry-after")) >= 1
        assert response.error()["type"] == "overloaded_error"
        assert once(server.port, request_bytes("GET", "/v1/models")).status == 200
        running[0].close()
        metrics.wait_running(server, 1)
        with Connection(server.port) as c:
            c.send(chat_request(stream=True, **OFF))
            assert c.read_head().status == 200
        running[1].close()
        metrics.wait_running(server, 0)


def test_buffered_bytes_limit():
    """Bodies of all requests together are bounded, not only each."""
    with Server(options=["--max-buffered", "1MiB", "--max-body", "1MiB"]) as server:
        open_ones = []
        for _ in range(3):
            c = Connection(server.port)
            c.send(
                request_bytes(
                    "POST",
                    "/v1/chat/completions",
                    [("Content-Type", "application/json"), ("Content-Length", "600000")],
                )
            )
            c.send(b" " * 500_000)
            open_ones.append(c)
        wait_until(lambda: any(readable(c.sock, 0) for c in open_ones), 10, "one of them refused")
        refused = [c for c in open_ones if readable(c.sock, 0)]
        assert {c.read().status for c in refused} == {503}
        for c in open_ones:
            c.close()
        wait_until(lambda: metrics.value(server, "bytes_buffered") == 0, 20, "the memory given back")


def test_deadline_of_a_stream_that_is_not_read():
    """The request ends on time; what was not sent yet is lost, what is sent stays well formed."""
    options = ["--request-timeout", "700ms"]
    with Server(script=[{"out": "x" * 300_000, "times": "always"}], options=options) as server:
        with Connection(server.port, receive_buffer=4096) as slow:
            slow.send(chat_request(stream=True, max_tokens=300_000, **OFF))
            head = slow.read_head()
            wait_until(lambda: metrics.running(server) == 1, 20, "the stream running")
            wait_until(lambda: metrics.running(server) == 0, 10, "its deadline passed")
            answer = sse.read_stream(b"".join(slow.pieces(head)).decode())
            assert answer.error["type"] == "timeout_error"
        metrics.wait_running(server, 0)


def test_stream_on_http_1_0_is_cancelled_by_closing():
    with Server(script=[HANG]) as server:
        with Connection(server.port) as c:
            c.send(chat_request(stream=True, **OFF).replace(b"HTTP/1.1", b"HTTP/1.0"))
            c.read_head()
            metrics.wait_running(server, 1)
        metrics.wait_running(server, 0)


def test_pipelined_request_waits_for_a_slow_stream():
    script = [{"out": "abc", "pace_ms": 100}, "</think>second"]
    with Server(script=script) as server, Connection(server.port) as c:
        c.send(chat_request(stream=True, **OFF) + chat_request())
        assert sse.read_stream(c.read().body.decode()).choices[0].content == "abc"
        assert c.read().json()["choices"][0]["message"]["content"] == "second"


def test_many_choices_with_heartbeats():
    script = [{"out": "ab", "first_ms": 700, "pace_ms": 5}]
    with Server(script=script, options=["--heartbeat", "200ms"]) as server:
        response = once(server.port, chat_request(stream=True, n=16, **OFF))
        answer = sse.read_stream(response.body.decode())
        assert {c.content for c in answer.choices.values()} == {"ab"}
        assert len(answer.choices) == 16 and 1 <= answer.n_comments < 16, "one heartbeat for all choices"
