"""Compressed bodies, limits at L and L + 1, and what every response has."""

import gzip
import zlib

import pytest
import zstandard

from harness.http_checks import CHAT, chunked, content, pieces_of, refused
from harness.raw_http import Connection, chat_body, chat_request, once, request_bytes
from harness.server import Server, Shared

SCRIPT = [{"out": "</think>ok", "times": "always"}]


@pytest.fixture(scope="module")
def shared():
    with Shared(script=SCRIPT) as it:
        yield it


@pytest.fixture
def server(shared):
    with shared.lent() as running:
        yield running


# Compressed bodies.

_ENCODERS = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
}


@pytest.mark.parametrize("encoding", sorted(_ENCODERS))
def test_compressed_body(server, encoding):
    body = _ENCODERS[encoding](chat_body())
    headers = [("Content-Encoding", encoding)]
    assert content(once(server.port, request_bytes("POST", CHAT, headers, body))) == "ok"
    bytewise = chunked(pieces_of(body, 1))
    headers.append(("Transfer-Encoding", "chunked"))
    assert content(once(server.port, request_bytes("POST", CHAT, headers, bytewise))) == "ok"


@pytest.mark.parametrize("encoding", sorted(_ENCODERS))
def test_decoded_limit_of_a_bomb(encoding):
    with Server(script=SCRIPT, options=["--max-body", "1MiB"]) as server:
        before = server.rss_bytes()
        body = _ENCODERS[encoding](b" " * (64 << 20))
        assert len(body) < 1 << 20
        request = request_bytes("POST", CHAT, [("Content-Encoding", encoding)], body)
        assert "1048576" in refused(once(server.port, request), 413)["message"]
        assert server.rss_bytes() - before < 32 << 20
        assert content(once(server.port, chat_request())) == "ok"


@pytest.mark.parametrize("encoding", sorted(_ENCODERS))
def test_broken_compressed_body(server, encoding):
    good = _ENCODERS[encoding](chat_body())
    for body in (b"", b"{}", good[:-3], good[:5], good + b"more", b"\0" * 50):
        request = request_bytes("POST", CHAT, [("Content-Encoding", encoding)], body)
        refused(once(server.port, request), 400)


@pytest.mark.parametrize("encoding", ["br", "compress", "gzip, gzip", "nonsense"])
def test_unsupported_encoding(server, encoding):
    request = request_bytes("POST", CHAT, [("Content-Encoding", encoding)], chat_body())
    assert "gzip" in refused(once(server.port, request), 415)["message"]


def test_identity_encoding(server):
    request = request_bytes("POST", CHAT, [("Content-Encoding", "identity")], chat_body())
    assert content(once(server.port, request)) == "ok"


# Limits, at L and L + 1.


def padded_chat(n_bytes):
    """A chat body of exactly `n_bytes`."""
    text = chat_body("x" * (n_bytes - len(chat_body(""))))
    assert len(text) == n_bytes
    return text


@pytest.fixture(scope="module")
def shared_small():
    with Shared(script=SCRIPT, options=["--max-body", "64KiB", "--max-header", "4KiB"]) as it:
        yield it


@pytest.fixture
def small(shared_small):
    with shared_small.lent() as running:
        yield running


@pytest.mark.parametrize("coding", ["counted", "chunked", "gzip"])
def test_body_limit(small, coding):
    for n_bytes, status in ((65536, 200), (65537, 413)):
        body, headers = padded_chat(n_bytes), []
        if coding == "chunked":
            body, headers = chunked(pieces_of(body, 5000)), [("Transfer-Encoding", "chunked")]
        elif coding == "gzip":
            body, headers = gzip.compress(body), [("Content-Encoding", "gzip")]
        response = once(small.port, request_bytes("POST", CHAT, headers, body))
        assert response.status == status, (n_bytes, response.body)
        if status == 413:
            assert "65536" in response.error()["message"]


def test_announced_body_is_refused_at_once(small):
    with Connection(small.port) as c:
        c.send(
            request_bytes(
                "POST", CHAT, [("Content-Length", "65537"), ("Content-Type", "application/json")]
            )
        )
        refused(c.read(), 413)


def test_endless_chunked_body_is_refused_at_the_limit(small):
    with Connection(small.port) as c:
        c.send(
            request_bytes(
                "POST",
                CHAT,
                [("Transfer-Encoding", "chunked"), ("Content-Type", "application/json")],
            )
        )
        c.send((b"1000\r\n" + b"x" * 4096 + b"\r\n") * 17)
        refused(c.read(), 413)


@pytest.mark.parametrize("kind", ["one value", "many fields", "target", "target and value"])
def test_header_limit(small, kind):
    """Request line and fields together."""

    def head(n_bytes):
        left = n_bytes - len(request_bytes("GET", "/version"))
        if kind == "one value":
            data = request_bytes("GET", "/version", [("X-A", "a" * (left - 7))])
        elif kind == "target":
            data = request_bytes("GET", "/version?" + "a" * (left - 1))
        elif kind == "target and value":
            half = left // 2
            field = [("X-A", "a" * (left - half - 7))]
            data = request_bytes("GET", "/version?" + "a" * (half - 1), field)
        else:
            many = [("X-A", "a" * 93)] * (left // 100 - 1)
            rest = left - 100 * len(many)
            data = request_bytes("GET", "/version", many + [("X-B", "b" * (rest - 7))])
        assert len(data) == n_bytes
        return data

    assert once(small.port, head(4096)).status == 200
    assert "4096" in refused(once(small.port, head(4097)), 431)["message"]


def test_number_of_header_fields(server):
    for n, status in ((127, 200), (128, 431)):  # and Host
        response = once(server.port, request_bytes("GET", "/version", [("X-A", "1")] * n))
        assert response.status == status
    response.error()


def test_endless_header_is_refused(small):
    with Connection(small.port) as c:
        c.send(b"GET /version HTTP/1.1\r\nX-A: " + b"a" * 20_000)
        refused(c.read(), 431)


def test_endless_trailer_is_refused(small):
    with Connection(small.port) as c:
        c.send(
            request_bytes(
                "POST",
                CHAT,
                [("Transfer-Encoding", "chunked"), ("Content-Type", "application/json")],
            )
        )
        c.send(b"2\r\n{}\r\n0\r\nX-A: " + b"a" * 20_000)
        assert c.read().status in (400, 413, 431)


def test_chunk_extension_without_end_is_refused(small):
    with Connection(small.port) as c:
        c.send(
            request_bytes(
                "POST",
                CHAT,
                [("Transfer-Encoding", "chunked"), ("Content-Type", "application/json")],
            )
        )
        c.send(b"2;" + b"a" * 20_000)
        assert c.read().status in (400, 413, 431)


def test_refusals_end_as_whole_responses_while_the_body_is_still_coming(small):
    """No reset that would lose the answer of a client that is still sending."""
    for _ in range(20):
        with Connection(small.port) as c:
            body = b"x" * 300_000
            try:
                c.send(request_bytes("POST", CHAT, body=body))
            except (BrokenPipeError, ConnectionResetError):
                pass
            refused(c.read(), 413)


# What every response has.


def test_response_headers(server):
    for request in (
        chat_request(),
        request_bytes("GET", "/nope"),
        request_bytes("GET", "/version"),
    ):
        response = once(server.port, request)
        assert response.header("x-request-id") and response.header("date")
        assert response.header("server") is None
        assert response.header("access-control-allow-origin") is None


def test_version(server):
    whole = once(server.port, request_bytes("GET", "/version")).json()
    assert isinstance(whole["version"], str) and whole["version"]


def test_models(server):
    whole = once(server.port, request_bytes("GET", "/v1/models")).json()
    assert whole["object"] == "list"
    (model,) = [m for m in whole["data"] if m["id"] == "deepseek-flash"]
    assert model["object"] == "model" and isinstance(model["created"], int) and model["owned_by"]
    assert model["context_length"] == 1_048_576 and model["max_output_tokens"] == 393_216
    assert once(server.port, request_bytes("GET", "/models")).json() == whole
    one = once(server.port, request_bytes("GET", "/v1/models/deepseek-flash"))
    assert one.json() == model
    assert (
        refused(once(server.port, request_bytes("GET", "/v1/models/nope")), 404)["code"]
        == "model_not_found"
    )


def test_probes_of_other_servers_find_nothing(server):
    """A 200 here would make some clients believe that they face another server (spec clients.md
    §2.6).
    """
    for path in ("/api/v1/models", "/api/tags", "/v1/props", "/props"):
        assert once(server.port, request_bytes("GET", path)).status == 404
    assert once(server.port, request_bytes("POST", "/api/show", body=b"{}")).status == 404
    assert once(server.port, request_bytes("HEAD", "/api/hello"), head=True).status == 404


def test_error_bodies_name_field_and_what_is_allowed(server):
    cases = {
        "temperature": (3.5, "[0, 2]"),
        "top_p": (1.5, "(0, 1.0]"),
        "n": (17, "[1, 16]"),
        "max_tokens": (0, "[1, 393216]"),
        "max_completion_tokens": (393_217, "[1, 393216]"),
        "top_logprobs": (21, "[0, 20]"),
        "presence_penalty": (-3, "[-2, 2]"),
    }
    for field, (value, range_text) in cases.items():
        more = {"logprobs": True} if field == "top_logprobs" else {}
        error = refused(once(server.port, chat_request(**{field: value}, **more)), 400)
        assert field in error["message"] and range_text in error["message"], error
