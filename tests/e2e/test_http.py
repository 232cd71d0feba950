"""HTTP/1.1 as bytes: framing, pipelining, malformed and unusual requests, methods and paths."""

import threading

import pytest

from harness.http_checks import CHAT, chunked, content, pieces_of, refused
from harness.raw_http import Connection, chat_body, chat_request, once, request_bytes
from harness.server import Shared

SCRIPT = [{"out": "</think>ok", "times": "always"}]


@pytest.fixture(scope="module")
def shared():
    with Shared(script=SCRIPT) as it:
        yield it


@pytest.fixture
def server(shared):
    with shared.lent() as running:
        yield running


# Framing of requests.


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
def test_chunked_body(server, size):
    body = chunked(pieces_of(chat_body(), size))
    assert (
        content(
            once(server.port, request_bytes("POST", CHAT, [("Transfer-Encoding", "chunked")], body))
        )
        == "ok"
    )


def test_chunked_body_with_extensions_and_trailers(server):
    body = chunked(pieces_of(chat_body(), 9), b';name="a;b";x', b"X-Trailer: 1\r\nX-More: 2\r\n")
    with Connection(server.port) as c:
        c.send(request_bytes("POST", CHAT, [("Transfer-Encoding", "chunked")], body))
        assert content(c.read()) == "ok"
        assert content(c.chat()) == "ok"  # the trailers were not taken for the next request


def test_chunk_sizes_in_both_cases_and_with_zeros(server):
    body = chat_body("x" * 11)
    head = b"%04X\r\n%s\r\n" % (len(body), body)
    request = request_bytes("POST", CHAT, [("Transfer-Encoding", "chunked")], head + b"000\r\n\r\n")
    assert content(once(server.port, request)) == "ok"


@pytest.mark.parametrize(
    "body",
    [
        b"zz\r\nab\r\n0\r\n\r\n",
        b"-1\r\nab\r\n0\r\n\r\n",
        b"\r\nab\r\n0\r\n\r\n",
        b"ffffffffffffffffff\r\nab\r\n0\r\n\r\n",
        b"2\r\nabc\r\n0\r\n\r\n",
        b"2 \r\x00ab\r\n0\r\n\r\n",
        b"0x2\r\nab\r\n0\r\n\r\n",
    ],
)
def test_broken_chunks(server, body):
    request = request_bytes("POST", CHAT, [("Transfer-Encoding", "chunked")], body)
    with Connection(server.port) as c:
        c.send(request)
        refused(c.read(), 400)
        assert c.closed(), "after broken framing nothing can follow"


def test_one_byte_writes(server):
    with Connection(server.port) as c:
        c.send_bytewise(chat_request())
        assert content(c.read()) == "ok"


def test_keep_alive_is_reused(server):
    with Connection(server.port) as c:
        ids = set()
        for _ in range(5):
            response = c.chat()
            assert content(response) == "ok"
            ids.add(response.header("x-request-id"))
        assert len(ids) == 5


def test_pipelined_requests_are_answered_in_order(server):
    with Connection(server.port) as c:
        c.send(
            chat_request()
            + request_bytes("GET", "/version")
            + chat_request(n=2)
            + request_bytes("HEAD", "/v1/models")
            + chat_request(temperature=9)
            + request_bytes("GET", "/v1/models")
        )
        assert content(c.read()) == "ok"
        assert "version" in c.read().json()
        assert len(c.read().json()["choices"]) == 2
        assert c.read(head=True).status == 200
        assert "temperature" in refused(c.read(), 400)["message"]
        assert c.read().json()["object"] == "list"


def test_many_pipelined_streams(server):
    with Connection(server.port) as c:
        c.send(chat_request(stream=True) * 20)
        for _ in range(20):
            assert c.read().body.endswith(b"data: [DONE]\n\n")


def test_thousands_of_pipelined_requests(server):
    """Nothing that a request needs may pile up while the next one is already there."""
    n = 20_000
    with Connection(server.port) as c:
        data = request_bytes("GET", "/version") * n
        sender = threading.Thread(target=c.sock.sendall, args=(data,), daemon=True)
        sender.start()
        for _ in range(n):
            assert c.read().status == 200
        sender.join()


def test_connection_close_is_honoured(server):
    with Connection(server.port) as c:
        response = c.chat(headers=[("Connection", "close")])
        assert content(response) == "ok" and response.header("connection") == "close"
        assert c.closed()


def test_half_close_still_gets_the_answer(server):
    """A client that has said everything may say so (shutdown for writing) and wait."""
    with Connection(server.port) as c:
        c.send(request_bytes("GET", "/v1/models", [("Connection", "close")]))
        c.sock.shutdown(1)
        assert c.read().status == 200
        assert c.closed()


def test_body_cut_short(server):
    data = chat_request()
    for cut in (1, len(data) // 2, len(data) - 1):
        with Connection(server.port) as c:
            c.send(data[:cut])
            c.sock.shutdown(1)
            # Nothing, or a complaint, but never an answer to what was not asked.
            received = b""
            while piece := c.sock.recv(4096):
                received += piece
            assert received == b"" or received.startswith(
                (b"HTTP/1.1 400", b"HTTP/1.1 408")
            ), received
    assert content(once(server.port, data)) == "ok"


def test_http_1_0(server):
    with Connection(server.port) as c:
        c.send(request_bytes("POST", CHAT, body=chat_body(), version="HTTP/1.0"))
        response = c.read()
        assert content(response) == "ok"
        assert c.closed()


def test_http_1_0_stream_is_not_chunked(server):
    with Connection(server.port) as c:
        c.send(
            request_bytes("POST", CHAT, body=chat_body(stream=True), version="HTTP/1.0", host=None)
        )
        response = c.read()
        assert response.header("transfer-encoding") is None
        assert response.body.endswith(b"data: [DONE]\n\n")


def test_http_1_0_keep_alive(server):
    with Connection(server.port) as c:
        for _ in range(2):
            c.send(
                request_bytes("GET", "/version", [("Connection", "keep-alive")], version="HTTP/1.0")
            )
            response = c.read()
            assert response.status == 200 and response.header("connection").lower() == "keep-alive"


def test_absolute_form(server):
    target = f"http://127.0.0.1:{server.port}{CHAT}?x=1"
    assert content(once(server.port, request_bytes("POST", target, body=chat_body()))) == "ok"


def test_expect_continue(server):
    with Connection(server.port) as c:
        body = chat_body()
        whole = request_bytes("POST", CHAT, [("Expect", "100-continue")], body)
        c.send(whole[: -len(body)])
        assert c.sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        c.send(body)
        assert content(c.read()) == "ok"


@pytest.mark.parametrize(
    "headers,status",
    [
        ([("Content-Length", str(100 << 20))], 413),
        ([("Content-Length", "10"), ("Content-Type", "text/plain")], 415),
        ([("Content-Length", "10"), ("Content-Encoding", "br")], 415),
    ],
)
def test_expect_continue_refused_before_the_body(server, headers, status):
    with Connection(server.port) as c:
        names = {name for name, _ in headers}
        if "Content-Type" not in names:
            headers = headers + [("Content-Type", "application/json")]
        c.send(request_bytes("POST", CHAT, headers + [("Expect", "100-continue")]))
        response = c.read()
        refused(response, status)
        assert response.interim == [], "100 Continue invites a body that is not wanted"


def test_unknown_path_refuses_the_body_unread(server):
    with Connection(server.port) as c:
        c.send(
            request_bytes(
                "POST", "/nope", [("Content-Length", "1000000"), ("Expect", "100-continue")]
            )
        )
        response = c.read()
        refused(response, 404)
        assert response.interim == []


# Malformed heads.


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS hello
        b"GET\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.1 extra\r\nHost: a\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/0.9\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.9\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / http/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"G\x00T / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /a b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n: x\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX-A: a\x00b\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",  # no Host
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\r\n" * 3 + b"\x00\x00\r\n\r\n",
    ],
)
def test_malformed_head(server, data):
    with Connection(server.port) as c:
        c.send(data)
        c.sock.shutdown(1)
        refused(c.read(), 400)
        assert c.closed()


BOTH = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
)


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        b"Content-Length: 4\r\nContent-Length: 5\r\n",
        b"Content-Length: 4, 5\r\n",
        b"Transfer-Encoding: chunked, chunked\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: gzip\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    ],
)
def test_ambiguous_framing_is_refused(server, framing):
    """What two parsers could read differently smuggles requests past the first of them."""
    with Connection(server.port) as c:
        c.send(BOTH + framing + b"\r\n0\r\n\r\nGET /version HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        response = c.read()
        assert response.status in (400, 501), response.body
        response.error()
        assert c.closed(), "a smuggled request was read"


# Methods and paths.


@pytest.mark.parametrize(
    "method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "BREW"]
)
def test_unknown_path_is_404_for_every_method(server, method):
    for path in (
        "/nope",
        "/api/tags",
        "/v1",
        "/v1/chat/completions/",
        "//v1/models",
        "/v1/%6dodels",
    ):
        response = once(server.port, request_bytes(method, path), head=method == "HEAD")
        assert response.status == 404, (path, response)
        if method != "HEAD":
            response.error()


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD", "BREW"])
def test_wrong_method_is_405_with_allow(server, method):
    response = once(server.port, request_bytes(method, CHAT), head=method == "HEAD")
    assert response.status == 405 and "POST" in response.header("allow")


def test_wrong_method_on_a_get_path(server):
    response = once(server.port, request_bytes("POST", "/v1/models", body=b"{}"))
    refused(response, 405)
    assert "GET" in response.header("allow")


def test_options_names_the_methods(server):
    response = once(server.port, request_bytes("OPTIONS", CHAT))
    assert response.status in (200, 204) and "POST" in response.header("allow")
    assert response.header("access-control-allow-origin") is None


def test_head_of_the_root(server):
    """What some clients probe first."""
    with Connection(server.port) as c:
        assert c.get("/", method="HEAD").status == 200
        assert c.get("/version").status == 200  # and the connection goes on


@pytest.mark.parametrize("path", ["/v1/models", "/version", "/health", "/ready"])
def test_head_is_get_without_body(server, path):
    with Connection(server.port) as c:
        whole = c.get(path)
        head = c.get(path, method="HEAD")
        assert (head.status, head.body) == (whole.status, b"")
        assert head.header("content-length") == whole.header("content-length")
