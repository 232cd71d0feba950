"""Rows S4, S18 and S20 of the security table (spec users.md §5): logs, responses, browsers."""

import json
import re
import threading

import pytest

from harness import metrics, scan, sse
from harness.raw_http import Connection, chat_body, chat_request, once, request_bytes
from harness.server import REPOSITORY, Server, Shared

OFF = {"thinking": {"type": "disabled"}}
OK = {"out": "</think>ok", "times": "always"}
CHAT = "/v1/chat/completions"


# S4: keys and request content in logs; how keys are compared.

CANARY = "canary7f3a"


def provoke(server, key):
    """Plants canaries everywhere a client can put text, in accepted, refused and failing
    requests.
    """
    right = ("Authorization", f"Bearer {key}")
    wrong = ("Authorization", f"Bearer {CANARY}-wrong-key")
    extra = [
        (f"X-{CANARY}", CANARY),
        ("User-Agent", CANARY),
        ("Cookie", CANARY),
        ("Referer", f"http://{CANARY}/"),
    ]
    for auth in (right, wrong, ("x-api-key", f"{CANARY}-other-key")):
        for path in (f"{CHAT}?q={CANARY}", f"/{CANARY}", f"/v1/models/{CANARY}"):
            headers = [auth, *extra]
            once(server.port, request_bytes("GET", path, headers))
            once(server.port, chat_request(CANARY, headers, path=path))
    headers = [right, *extra]
    once(server.port, chat_request(CANARY, headers, stream=True))
    bad = {
        "model": CANARY,
        CANARY: 1,
        "temperature": CANARY,
        "stop": CANARY,
        "user_id": CANARY + " ",
        "tools": CANARY,
    }
    for field, value in bad.items():
        once(server.port, chat_request(CANARY, headers, **{field: value}))
    for text in ("[[fail]]", "[[sick]]", "[[refuse]]"):
        once(server.port, chat_request(CANARY + text, headers))
    once(server.port, request_bytes("POST", CHAT, headers, b'{"%s' % CANARY.encode()))
    once(server.port, request_bytes("GET", "/", [("Host", f"{CANARY}.example")]))
    once(server.port, request_bytes("GET", "/", [("Origin", f"http://{CANARY}.example")]))
    once(server.port, f"GET /{CANARY} HTTP/9.9\r\n{CANARY}\r\n\r\n".encode())
    with Connection(server.port) as c:
        c.send(chat_request(CANARY + "[[hang]]", headers, stream=True))
        c.read_head()
    metrics.wait_running(server, 0)


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_key_and_no_request_text_in_any_log(form):
    key = "secret-key-5f1e2d3c"
    script = [
        {"when": {"last": "[[fail]]"}, "out": CANARY, "fail_after": 2, "times": "always"},
        {"when": {"last": "[[sick]]"}, "out": CANARY, "sick_after": 0, "times": "always"},
        {"when": {"last": "[[refuse]]"}, "refuse": "internal", "times": "always"},
        {"when": {"last": "[[hang]]"}, "out": CANARY, "hang_after": 1, "times": "always"},
        {"out": f"{CANARY}</think>{CANARY}", "times": "always"},
    ]
    options = ["--api-key", key, "--log-level", "debug", "--log-format", form, "--trace"]
    with Server(script=script, options=options) as server:
        provoke(server, key)
        known = once(
            server.port, request_bytes("GET", "/v1/models", [("Authorization", f"Bearer {key}")])
        )
        chat = once(server.port, chat_request("x", [("Authorization", f"Bearer {key}")]))
        assert known.status == chat.status == 200
        server.process.terminate()
        server.wait()
        log = server.log()
        assert (
            chat.header("x-request-id") in log
        ), "the log must be there for its silence to mean something"
        assert CANARY not in log.lower(), log[log.lower().index(CANARY) - 300 :][:600]
        assert key not in log
        for line in log.splitlines():
            if form == "json" and line.startswith("{"):
                json.loads(line)


def test_keys_are_compared_in_constant_time():
    source = (REPOSITORY / "src/serve/accounts.cc").read_text()
    body = source[source.index("Accounts::Authenticate") :]
    body = body[: body.index("\n}\n")]
    assert "ConstantTimeEqual" in body
    # No look-up, early end or plain comparison of key or digest beside it.
    assert not re.search(
        r"\.find\(|\.count\(|\bbreak\b|memcmp|strcmp|digest\s*==|==\s*digest|key\s*==\s*[^n]", body
    ), body
    implementation = (REPOSITORY / "src/base/sha256.cc").read_text()
    body = implementation[implementation.index("ConstantTimeEqual") :]
    assert "CRYPTO_memcmp" in body[: body.index("\n}\n")]


# S18: what responses show. Every response that a test reads passes harness.scan as well.


def test_scanner_sees_what_it_should():
    for bad in (
        b"at 0x7ffe1234abcd",
        b"src/serve/net.cc:12",
        b"open /etc/passwd",
        b"std::bad_alloc",
        b'"/tmp/x"',
    ):
        with pytest.raises(AssertionError):
            scan.check(bad)
    scan.check(b'{"error":{"message":"path /v1/nope is not here","x":"https://example.com/tmp/x"}}')


def test_concurrent_answers_hold_only_their_own_content():
    n = 40
    script = [
        {
            "when": {"last": f"<mark-{i}>"},
            "out": f"r{i:03};" * 30 + "</think>" + f"c{i:03};" * 30,
            "pace_ms": 1,
            "times": "always",
        }
        for i in range(n)
    ]
    errors, ids = [], []

    def client(server, i):
        try:
            with Connection(server.port) as c:
                for stream in (True, False, True):
                    response = c.chat(f"<mark-{i}>", stream=stream)
                    answer = (sse.read_stream if stream else sse.read_body)(response.body.decode())
                    assert answer.choices[0].reasoning == f"r{i:03};" * 30
                    assert answer.choices[0].content == f"c{i:03};" * 30
                    assert "mark-" not in response.body.decode()
                    ids.append((response.header("x-request-id"), answer.identity[0]))
        except Exception as error:  # noqa: BLE001 — reported by the test
            errors.append(repr(error))

    with Server(script=script) as server:
        threads = [threading.Thread(target=client, args=(server, i)) for i in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors, errors[:3]
        assert len(set(ids)) == len({a for a, _ in ids}) == len({b for _, b in ids}) == 3 * n


def test_errors_do_not_quote_without_bound():
    with Server() as server:
        long = "v" * 100_000
        for more in (
            {"model": long},
            {"temperature": long},
            {"stop": [1, long]},
            {"user_id": long},
            {"tools": long},
            {"response_format": {"type": long}},
        ):
            response = once(server.port, chat_request(**more))
            assert response.status in (400, 404) and len(response.body) < 4096, len(response.body)
        response = once(server.port, request_bytes("GET", "/" + long[:8000]))
        assert response.status == 404 and len(response.body) < 4096


def test_metric_labels_are_bounded(tmp_path):
    with Server(script=[OK]) as server:
        once(server.port, chat_request())
        once(server.port, request_bytes("GET", "/nope"))
        before = len(metrics.scrape(server.admin_port))
        for i in range(200):
            once(server.port, request_bytes(f"M{i}", f"/path-{i}?x={i}"))
            once(server.port, chat_request(model=f"model-{i}", user=f"user-{i}"))
            once(
                server.port,
                request_bytes(
                    "GET",
                    f"/v1/models/m{i}",
                    [("Authorization", f"Bearer k{i}"), ("User-Agent", f"u{i}")],
                ),
            )
        after = metrics.scrape(server.admin_port)
        assert len(after) < before + 20, "labels grow with what clients send"
        text = json.dumps(after)
        for word in ("path-", "model-1", "user-1", "k199", "u199", "M199"):
            assert word not in text


def test_version_and_health_say_little():
    with Server(options=["--api-key", "key-of-version-1"]) as server:
        for path in ("/version", "/health", "/ready", "/"):
            response = once(server.port, request_bytes("GET", path))
            assert response.status == 200 and len(response.body) < 1000


# S20: a browser on the same machine is no client.


@pytest.fixture(scope="module")
def shared_loopback():
    with Shared(script=[OK], options=["--allowed-host", "inference.example"]) as it:
        yield it


@pytest.fixture
def loopback(shared_loopback):
    with shared_loopback.lent() as running:
        yield running


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "127.0.0.2",
        "0.0.0.0",
        "[::2]",
        "2130706433",
        "x@127.0.0.1",
        "127.0.0.1:1:2",
        "[::1",
    ],
)
def test_foreign_host_is_refused(loopback, host):
    """After DNS rebinding the browser still names the site it believes to talk to."""
    for port in (loopback.port, loopback.admin_port):
        value = host.format(port=port)
        for data in (
            request_bytes("GET", "/version", [("Host", value)]),
            request_bytes("GET", "/metrics", [("Host", value)]),
            request_bytes("POST", CHAT, [("Host", value)], chat_body()),
        ):
            response = once(port, data)
            assert response.status in (400, 403), (value, response)
            assert b"ok" not in response.body


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:{port}",
        "localhost",
        "LOCALHOST:{port}",
        "[::1]:{port}",
        "inference.example",
        "Inference.Example:443",
    ],
)
def test_own_host_is_served(loopback, host):
    value = host.format(port=loopback.port)
    assert once(loopback.port, request_bytes("GET", "/v1/models", [("Host", value)])).status == 200


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://evil.example:80",
        "null",
        "file://",
        "http://127.0.0.1.evil.example",
        "chrome-extension://abcdef",
        "http://localhost.evil.example",
        "evil",
        "http://evil@localhost.evil.example",
    ],
)
def test_foreign_origin_is_refused(loopback, origin):
    for port in (loopback.port, loopback.admin_port):
        response = once(port, request_bytes("POST", CHAT, [("Origin", origin)], chat_body()))
        assert response.status == 403, response
        response = once(port, request_bytes("POST", "/admin/drain", [("Origin", origin)]))
        assert response.status == 403, response
    assert once(loopback.port, request_bytes("GET", "/ready")).status == 200


def test_own_origin_is_served(loopback):
    for origin in (
        "http://localhost:{port}",
        "http://127.0.0.1:{port}",
        "http://[::1]:3000",
        "https://inference.example",
    ):
        header = ("Origin", origin.format(port=loopback.port))
        assert once(loopback.port, chat_request(headers=[header])).status == 200


def test_preflight_gets_no_permission(loopback):
    """A cross-site page may send text/plain unasked and JSON only after a preflight that we do not
    grant.
    """
    headers = [
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "content-type"),
    ]
    for origin in ("https://evil.example", f"http://localhost:{loopback.port}"):
        response = once(
            loopback.port, request_bytes("OPTIONS", CHAT, [("Origin", origin), *headers])
        )
        assert not [name for name, _ in response.headers if name.startswith("access-control-")]


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=a",
        "",
        None,
        "text/plain; application/json",
        "application/json-patch+json",
    ],
)
def test_only_json_is_read(loopback, content_type):
    response = once(
        loopback.port, request_bytes("POST", CHAT, [("Content-Type", content_type)], chat_body())
    )
    assert response.status == 415, response
