"""What an operator relies on: health, metrics, admin port, TLS, keys, drain and signals."""

import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from harness import metrics, scan, sse
from harness.raw_http import (
    Closed,
    Connection,
    chat_request,
    once,
    request_bytes,
    tls_context,
)
from harness.server import Server, wait_until

OFF = {"thinking": {"type": "disabled"}}
HANG = {"out": "x" * 10, "hang_after": 3, "times": "always"}
OK = {"out": "</think>ok", "times": "always"}


def get(port, path, **more):
    return once(port, request_bytes("GET", path, **more))


# Ports and routes.


def test_health_and_ready():
    with Server() as server:
        for port in (server.port, server.admin_port):
            assert get(port, "/health").status == 200
            assert get(port, "/ready").status == 200


def test_admin_routes_are_on_the_admin_port_only():
    with Server(script=[OK]) as server:
        for method, path in (
            ("GET", "/admin/requests"),
            ("GET", "/admin/limits"),
            ("POST", "/admin/drain"),
            ("POST", "/admin/reload"),
        ):
            for spelled in (
                path,
                path.upper(),
                "/" + path,
                path + "/",
                path.replace("/", "/./", 1),
                path.replace("a", "%61", 1),
            ):
                response = once(server.port, request_bytes(method, spelled))
                assert response.status == 404, (spelled, response)
        assert once(server.port, chat_request()).status == 200, "nothing of it drained the server"


def test_public_routes_are_not_on_the_admin_port():
    with Server(script=[OK]) as server:
        assert once(server.admin_port, chat_request()).status == 404
        assert get(server.admin_port, "/v1/models").status == 404


def test_admin_lists_requests_and_limits():
    with Server(script=[HANG]) as server:
        with Connection(server.port) as c:
            c.send(chat_request("SECRET-PROMPT", stream=True, **OFF))
            request_id = c.read_head().header("x-request-id")
            metrics.wait_running(server, 1)
            listed = get(server.admin_port, "/admin/requests")
            assert listed.status == 200 and request_id in listed.body.decode()
            assert b"SECRET-PROMPT" not in listed.body
        assert get(server.admin_port, "/admin/limits").status == 200
        metrics.wait_running(server, 0)


def test_ports_listen_on_loopback_only():
    with Server() as server:
        listening = {}
        for file in ("/proc/net/tcp", "/proc/net/tcp6"):
            for line in Path(file).read_text().splitlines()[1:]:
                _, local, _, state, *_ = line.split()
                if state == "0A":
                    address, port = local.split(":")
                    listening.setdefault(int(port, 16), set()).add(address)
        assert listening[server.port] == {"0100007F"}
        assert listening[server.admin_port] == {"0100007F"}


def test_no_admin_port_if_none_is_wanted():
    options = ["--port", "0", "--admin-port", "-1"]
    with Server(options=options, ports=False, wait=False) as server:
        wait_until(lambda: "listening on" in server.stdout(), 30, "the server")
        assert "admin on" not in server.stdout()


# Metrics.


def test_metrics_count_what_happens():
    with Server(script=[OK]) as server:
        once(server.port, chat_request())
        once(server.port, chat_request(stream=True))
        once(server.port, chat_request(temperature=9))
        get(server.port, "/nope")
        assert metrics.running(server) == 0
        assert metrics.value(server, "requests_finished_total") >= 2
        completion = metrics.value(server, "tokens_total", 'completion"')
        assert completion == 2 * (1 + len("ok"))
        assert metrics.value(server, "tokens_total", 'prompt"') == 2 * 98
        assert metrics.value(server, "http_requests_total", '2xx"') >= 2
        assert metrics.value(server, "http_requests_total", '4xx"') >= 2
        assert metrics.value(server, "ttft_seconds_count") == 2


def test_metrics_names_are_well_formed():
    """Each sample belongs to a family with HELP and TYPE, and every name begins alike."""
    with Server(script=[OK]) as server:
        text = get(server.admin_port, "/metrics").body.decode()
        kinds = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
        for name, _, _ in metrics.scrape(server.admin_port):
            family = name
            for suffix in ("_bucket", "_sum", "_count"):
                if name.endswith(suffix) and name[: -len(suffix)] in kinds:
                    family = name[: -len(suffix)]
            assert family in kinds and name.startswith("sluice_"), name


def test_metrics_on_the_public_port_from_loopback():
    with Server(options=["--api-key", "key-of-metrics-1"]) as server:
        assert get(server.port, "/metrics").status == 200


# Keys.


def authorized(port, key, header="Authorization"):
    value = f"Bearer {key}" if header == "Authorization" else key
    return once(port, chat_request(headers=[(header, value)])).status


def test_keys():
    with Server(script=[OK], options=["--api-key", "a-key-of-32-bytes-or-so"]) as server:
        assert authorized(server.port, "a-key-of-32-bytes-or-so") == 200
        assert authorized(server.port, "a-key-of-32-bytes-or-so", "x-api-key") == 200
        for wrong in (
            "",
            "a",
            "a-key-of-32-bytes-or-s",
            "a-key-of-32-bytes-or-soo",
            "A-KEY-OF-32-BYTES-OR-SO",
            "x" * 3000,
        ):
            response = once(
                server.port, chat_request(headers=[("Authorization", f"Bearer {wrong}")])
            )
            assert response.status == 401
            assert response.error()["type"] == "authentication_error"
        for header in ("Basic YTpi", "Bearer", "a-key-of-32-bytes-or-so"):
            assert (
                once(server.port, chat_request(headers=[("Authorization", header)])).status == 401
            )
        assert once(server.port, chat_request()).status == 401
        assert get(server.port, "/v1/models").status == 401
        for path in ("/", "/health", "/ready", "/version"):
            assert get(server.port, path).status == 200


def test_key_is_checked_before_the_body_is_read():
    with Server(options=["--api-key", "key-before-body-1"]) as server:
        head = request_bytes(
            "POST",
            "/v1/chat/completions",
            [
                ("Content-Type", "application/json"),
                ("Content-Length", "1000"),
                ("Expect", "100-continue"),
            ],
        )
        response = once(server.port, head)
        assert response.status == 401 and response.interim == []


def test_key_from_the_environment():
    with Server(script=[OK], env={"SLUICE_API_KEY": "key-from-environment-1"}) as server:
        scan.forbid("key-from-environment-1")
        assert authorized(server.port, "key-from-environment-1") == 200
        assert authorized(server.port, "nope") == 401


def test_reload_of_the_keys_file(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# tenants\nann first-key-of-ann\n")
    with Server(script=[OK], options=["--api-keys-file", keys]) as server:
        assert authorized(server.port, "first-key-of-ann") == 200
        assert authorized(server.port, "second-key-of-ann") == 401
        keys.write_text("ann second-key-of-ann\nbob key-of-bob-77\n")
        server.signal(signal.SIGHUP)
        wait_until(lambda: authorized(server.port, "second-key-of-ann") == 200, 10, "the new keys")
        assert authorized(server.port, "key-of-bob-77") == 200
        assert authorized(server.port, "first-key-of-ann") == 401
        keys.write_text("what is this\n")
        server.signal(signal.SIGHUP)
        wait_until(lambda: "line 1" in server.log(), 10, "a complaint in the log")
        assert authorized(server.port, "second-key-of-ann") == 200, "a bad file changes nothing"
        assert "what is" not in server.log(), "a mistyped line may hold a key"


def test_reload_over_the_admin_port(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("ann first-key-of-ann\n")
    with Server(script=[OK], options=["--api-keys-file", keys]) as server:
        keys.write_text("ann second-key-of-ann\n")
        assert once(server.admin_port, request_bytes("POST", "/admin/reload")).status in (
            200,
            202,
            204,
        )
        wait_until(lambda: authorized(server.port, "second-key-of-ann") == 200, 10, "the new key")


def test_reload_does_not_end_running_requests(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("ann first-key-of-ann\n")
    script = [{"out": "abcdefgh", "pace_ms": 100}]
    with Server(script=script, options=["--api-keys-file", keys]) as server, Connection(
        server.port
    ) as c:
        c.send(
            chat_request(headers=[("Authorization", "Bearer first-key-of-ann")], stream=True, **OFF)
        )
        head = c.read_head()
        keys.write_text("bob key-of-bob-77\n")
        server.signal(signal.SIGHUP)
        wait_until(lambda: authorized(server.port, "first-key-of-ann") == 401, 10, "the new keys")
        text = b"".join(c.pieces(head)).decode()
        assert sse.read_stream(text).choices[0].content == "abcdefgh"


# TLS.


def test_tls(certificate):
    with Server(script=[OK], options=certificate) as server:
        assert "https://" in server.stdout()
        with Connection(server.port, tls=True) as c:
            assert c.chat().json()["choices"][0]["message"]["content"] == "ok"
            assert sse.read_stream(c.chat(stream=True).body.decode()).choices[0].content == "ok"
            c.send(chat_request() * 3)  # pipelined inside TLS
            assert [c.read().status for _ in range(3)] == [200] * 3
        big = once(server.port, chat_request("x" * 500_000), tls=True)
        assert big.status == 200


def test_plain_http_to_a_tls_port(certificate):
    with Server(options=certificate) as server:
        with Connection(server.port) as c:
            c.send(request_bytes("GET", "/version"))
            try:
                while c.sock.recv(1000):
                    pass
            except ConnectionResetError:
                pass
        with Connection(server.port, tls=True) as c:
            assert c.get("/version").status == 200


def test_tls_ends_with_a_closure_alert(certificate):
    """An answer that ends with its connection must not look cut off (RFC 9112 §9.8)."""
    script = [{"out": "</think>whole", "times": "always"}]
    old = chat_request(stream=True, **OFF).replace(b"HTTP/1.1", b"HTTP/1.0")
    plain = [("Content-Type", "text/plain")]
    refused = request_bytes("POST", "/v1/chat/completions", plain, b"x" * 10)[:-5]
    with Server(script=script, options=certificate) as server:
        for request in (old, refused):
            sock = socket.create_connection(("127.0.0.1", server.port), 30)
            with tls_context().wrap_socket(sock, suppress_ragged_eofs=False) as tls:
                tls.sendall(request)
                answer = b""
                while piece := tls.recv(65536):  # raises if the end is not announced
                    answer += piece
                assert answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 4")), answer
                assert b"[DONE]" in answer or b"error" in answer


@pytest.mark.parametrize("tls", [False, True])
def test_a_refused_upload_may_go_on_for_a_while(certificate, tls):
    """Closing on a client that still sends would reset the connection and take the answer along."""
    options = ["--max-body", "1MiB", *(certificate if tls else [])]
    with Server(options=options) as server, Connection(server.port, tls=tls) as c:
        length = [("Content-Type", "application/json"), ("Content-Length", "20000000")]
        c.send(request_bytes("POST", "/v1/chat/completions", length, body=None))
        time.sleep(0.2)
        for _ in range(300):
            c.sock.sendall(b"x" * 65536)  # raises when the server has reset
        assert c.read().status == 413


@pytest.mark.parametrize("size", [10, 300_000])
def test_a_late_empty_line_does_not_destroy_the_last_answer(size):
    """A client that sends a line behind its body, on a connection that ends with the answer."""
    script = [{"out": "</think>" + "y" * size, "times": "always", "tokens_per_event": 4096}]
    with Server(script=script) as server:
        old = chat_request(stream=size < 100, max_tokens=390_000, **OFF).replace(b"HTTP/1.1", b"HTTP/1.0")
        for _ in range(5):
            with Connection(server.port) as c:
                c.send(old)
                time.sleep(0.03)
                c.sock.sendall(b"\r\n")
                time.sleep(0.05)
                assert c.read().body.count(b"y") >= size


@pytest.mark.parametrize("tls", [False, True])
def test_a_client_that_closes_gives_its_place_back_at_once(certificate, tls):
    """Each answer ends its connection; four places serve one client after the other."""
    options = ["--max-connections", "4", *(certificate if tls else [])]
    with Server(script=[OK], options=options) as server:
        for _ in range(20):
            close = [("Connection", "close")]
            assert once(server.port, chat_request(headers=close, **OFF), tls=tls).status == 200
            # Within less than the five seconds for which a connection lingers whose client does not close.
            wait_until(lambda: metrics.value(server, "connections_open") <= 1, 4, "it is closed")


def test_a_refused_body_is_not_kept_while_its_client_lingers():
    """What is not charged any more must not be held either."""
    with Server(script=[OK], options=["--max-buffered", "16MiB"]) as server:
        head = [("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]
        request = request_bytes("POST", "/v1/chat/completions", head, body=None)
        chunk = b"80000\r\n" + b" " * 0x80000 + b"\r\n"
        clients = [Connection(server.port) for _ in range(16)]
        before = server.rss_bytes()
        for c in clients:
            c.send(request + chunk * 24 + b"zz\r\n")
            assert c.read().status == 400
        assert server.rss_bytes() - before < (96 << 20)  # 16 bodies are 192 MiB
        for c in clients:
            c.close()


def test_large_prompts_do_not_shut_small_requests_out():
    script = [{"when": {"last": "xxxx"}, "times": "always", "out": "x", "hang_after": 0}, OK]
    with Server(script=script, options=["--max-buffered", "1MiB"]) as server:
        with Connection(server.port) as large:  # four bytes a token: nearly all of it
            large.send(chat_request("x" * 261_000, stream=True, **OFF))
            wait_until(lambda: metrics.running(server) == 1, 10, "a large prompt running")
            assert once(server.port, chat_request("y" * 3_000, **OFF)).status == 200
            assert once(server.port, chat_request("y" * 30_000, **OFF)).status == 503


def test_many_stop_signals_are_one(certificate):
    """Clients that do not read get their last second once, not once for each signal."""
    script = [{"out": "x" * 200_000, "times": "always"}]
    with Server(script=script, options=[*certificate, "--drain-timeout", "0s"]) as server:
        readers = [Connection(server.port, tls=True, receive_buffer=4096) for _ in range(3)]
        for c in readers:
            c.send(chat_request(stream=True, **OFF))
        wait_until(lambda: metrics.running(server) == 3, 20, "3 streams")
        for _ in range(8):
            if not server.alive():
                break
            server.signal(signal.SIGTERM)
            time.sleep(0.5)
        assert server.wait() == 0


def test_tls_cancellation(certificate):
    with Server(script=[HANG], options=certificate) as server:
        with Connection(server.port, tls=True) as c:
            c.send(chat_request(stream=True, **OFF))
            c.read_head()
            metrics.wait_running(server, 1)
        metrics.wait_running(server, 0)


def test_drain_during_a_tls_handshake(certificate):
    with Server(options=certificate) as server, Connection(server.port) as c:
        c.send(b"\x16\x03\x01")  # the beginning of a hello
        server.signal(signal.SIGTERM)
        assert server.wait(15) == 0


def test_tls_handshake_that_never_comes(certificate):
    options = [*certificate, "--header-timeout", "300ms"]
    with Server(options=options) as server, Connection(server.port) as c:
        assert c.closed(10)


# The end.


class Reader(threading.Thread):
    """Reads one stream to its end, whatever that is."""

    def __init__(self, port, text="hi"):
        super().__init__(daemon=True)
        self.connection = Connection(port)
        self.connection.send(chat_request(text, stream=True, **OFF))
        self.head = self.connection.read_head()
        self.body = b""
        self.broken = False
        self.start()

    def run(self):
        try:
            for piece in self.connection.pieces(self.head):
                self.body += piece
        except (Closed, OSError):
            self.broken = True
        self.connection.close()

    def answer(self):
        self.join(60)
        assert not self.is_alive() and not self.broken, self.body[-200:]
        return sse.read_stream(self.body.decode())


def test_drain_lets_100_streams_finish():
    # Slow enough that all hundred have begun before the first ends, under a sanitizer too.
    script = [{"out": "0123456789" * 4, "pace_ms": 120, "times": "always"}]
    with Server(script=script) as server:
        readers = [Reader(server.port) for _ in range(100)]
        wait_until(lambda: metrics.running(server) == 100, 20, "100 streams")
        server.signal(signal.SIGTERM)
        assert_not_ready(server)
        for reader in readers:
            assert reader.answer().choices[0].content == "0123456789" * 4
        assert server.wait() == 0


def assert_not_ready(server):
    """/ready says 503 from the signal on, as long as there is a server to ask."""

    def not_ready():
        return get(server.admin_port, "/ready").status == 503

    wait_until(not_ready, 20, "/ready says 503")
    assert get(server.admin_port, "/health").status == 200


def test_drain_ends_what_does_not_finish_with_an_error():
    with Server(script=[HANG], options=["--drain-timeout", "300ms"]) as server:
        readers = [Reader(server.port) for _ in range(20)]
        wait_until(lambda: metrics.running(server) == 20, 20, "20 streams")
        server.signal(signal.SIGTERM)
        for reader in readers:
            answer = reader.answer()
            assert answer.choices[0].content == "xxx"
            assert answer.error is not None and answer.error["type"] == "overloaded_error"
        assert server.wait() == 0


def test_drain_ends_a_whole_answer_with_503():
    with Server(script=[HANG], options=["--drain-timeout", "300ms"]) as server, Connection(
        server.port
    ) as c:
        c.send(chat_request(**OFF))
        wait_until(lambda: metrics.running(server) == 1, 10, "the request running")
        server.signal(signal.SIGTERM)
        response = c.read()
        assert response.status == 503 and response.error()["type"] == "overloaded_error"
        assert server.wait() == 0


def test_drain_closes_idle_connections():
    with Server() as server, Connection(server.port) as idle, Connection(server.port) as fresh:
        assert idle.get("/version").status == 200
        server.signal(signal.SIGTERM)
        assert idle.closed() and fresh.closed()
        assert server.wait() == 0


def test_drain_takes_no_new_work():
    script = [{"out": "abcdefghij", "pace_ms": 100, "times": "always"}]
    with Server(script=script) as server:
        reader = Reader(server.port)
        server.signal(signal.SIGTERM)
        assert_not_ready(server)
        try:
            assert once(server.port, chat_request()).status == 503
        except (Closed, OSError):
            pass  # not even a connection any more
        assert reader.answer().choices[0].content == "abcdefghij"
        assert server.wait() == 0


def test_drain_over_the_admin_port():
    with Server() as server:
        assert once(server.admin_port, request_bytes("POST", "/admin/drain")).status in (
            200,
            202,
            204,
        )
        assert server.wait() == 0


def test_second_signal_ends_at_once():
    with Server(script=[HANG], expect_exit=None) as server:
        readers = [Reader(server.port) for _ in range(5)]
        wait_until(lambda: metrics.running(server) == 5, 20, "5 streams")
        server.signal(signal.SIGTERM)
        assert_not_ready(server)
        assert server.alive()  # it would wait for these streams for drain-timeout, 30 s
        server.signal(signal.SIGTERM)
        assert server.wait(10) == 0
        for reader in readers:
            assert reader.answer().error["type"] == "overloaded_error"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_without_requests(number):
    with Server() as server:
        server.signal(number)
        assert server.wait() == 0


def test_die_after_ends_the_process():
    script = [{"out": "abcdef", "die_after": 3, "pace_ms": 50}]
    with Server(script=script, expect_exit=None) as server:
        reader = Reader(server.port)
        reader.join(20)
        assert not reader.is_alive()
        assert b"[DONE]" not in reader.body and b"error" not in reader.body
        assert server.wait() not in (0, None)


def test_disconnects_during_drain():
    """Clients that go away while the server drains end the drain, they do not hold it."""
    with Server(script=[HANG]) as server:
        connections = []
        for _ in range(10):
            c = Connection(server.port)
            c.send(chat_request(stream=True, **OFF))
            c.read_head()
            connections.append(c)
        server.signal(signal.SIGTERM)
        assert_not_ready(server)
        for c in connections:
            c.close()
        assert server.wait(15) == 0


def test_drain_with_a_client_that_does_not_read():
    """It is cut off at the deadline; that is no failure of the drain."""
    script = [{"out": "x" * 40_000, "times": "always"}]
    with Server(script=script, options=["--drain-timeout", "300ms"]) as server:
        with Connection(server.port, receive_buffer=4096) as slow:
            slow.send(chat_request(stream=True, max_tokens=50_000, **OFF))
            slow.read_head()
            wait_until(
                lambda: metrics.value(server, "slow_reader_pauses_total") >= 1, 10, "a pause"
            )
            server.signal(signal.SIGTERM)
            assert server.wait(15) == 0
