"""Row S22 of the security table (spec users.md §5): lifetimes at the mercy of timing.

Runs under the sanitizers too, where it says most.
"""

import collections
import random
import signal
import time

import pytest

from harness import metrics, sse
from harness.raw_http import Closed, Connection, chat_request, once
from harness.server import Server, wait_until

OFF = {"thinking": {"type": "disabled"}}
OK = {"out": "</think>ok", "times": "always"}
CHAT = "/v1/chat/completions"


def storm(port, rng, n, tls):
    """`n` requests at once, each dropped at a random point of its life."""
    connections = []
    for _ in range(n):
        c = Connection(port, tls=tls)
        body = chat_request(stream=rng.random() < 0.7, n=rng.choice([1, 1, 3]), **OFF)
        point = rng.random()
        c.send(body if point > 0.2 else body[: rng.randrange(1, len(body))])
        connections.append((c, point))
    rng.shuffle(connections)
    for c, point in connections:
        if point > 0.5:
            c.sock.settimeout(rng.choice([0.001, 0.01, 0.05]))
            try:
                for _ in range(rng.randrange(4)):
                    c.sock.recv(rng.choice([1, 300, 4000]))
            except (TimeoutError, ConnectionResetError):
                pass
        if rng.random() < 0.5:
            c.reset()
        else:
            c.close()


def abort_storm(seed, n_rounds, n, tls_options=()):
    rng = random.Random(seed)
    script = [
        {"when": {"last": "[[after]]"}, "out": "calm"},
        {"out": "x" * 200, "pace_ms": 1, "times": 200},
        {"out": "x" * 50, "first_ms": 20, "times": 200},
        {"out": "x" * 50, "hang_after": 5, "times": 200},
        {"out": "x" * 50, "fail_after": 3, "pace_ms": 2, "times": 200},
        {"out": "x" * 2000, "tokens_per_event": 6, "times": "always"},
    ]
    with Server(script=script, options=["--log-level", "error", *tls_options]) as server:
        tls = bool(tls_options)

        def calm():
            return metrics.running(server) + metrics.value(server, "requests_waiting") == 0

        marks = []
        for _ in range(n_rounds):
            storm(server.port, rng, n, tls)
            wait_until(calm, 20, "everything cancelled")
            wait_until(
                lambda: metrics.value(server, "connections_open") <= 2, 20, "every connection gone"
            )
            marks.append((server.rss_bytes(), server.n_descriptors()))
        print(marks)
        assert marks[-1][1] <= marks[0][1] + 2, "descriptors leak"
        growth = marks[-1][0] - marks[n_rounds // 3][0]
        assert growth < (
            (64 if server.is_sanitized() else 16) << 20
        ), f"memory grew by {growth} bytes"
        assert once(server.port, chat_request("[[after]]", **OFF), tls=tls).status == 200


def test_abort_storm(seed):
    abort_storm(seed, n_rounds=4, n=200)


def test_abort_storm_over_tls(seed, certificate):
    abort_storm(seed, n_rounds=3, n=100, tls_options=certificate)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_long_abort_storm(seed):
    abort_storm(seed, n_rounds=40, n=400)


def test_cancel_storm_during_drain(seed):
    """Disconnects, ends and the drain meet at every point. Whoever stays gets a whole answer or is
    told why not: nobody's stream breaks off.
    """
    rng = random.Random(seed)
    script = [{"out": "x" * 60, "pace_ms": 5, "times": "always"}]
    with Server(script=script, options=["--drain-timeout", "1s"]) as server:
        stays = Connection(server.port)
        stays.send(chat_request(stream=True, n=2, **OFF))
        wait_until(lambda: metrics.running(server) > 0, 20, "the first stream running")
        connections = [Connection(server.port) for _ in range(60)]
        for c in connections:
            c.send(chat_request(stream=True, n=2, **OFF))
        server.process.terminate()
        for c in connections:
            if rng.random() < 0.6:
                time.sleep(rng.random() * 0.01)
                c.reset()
        assert outcome_during_drain(stays) in ("answered", "ended"), "it ran before the drain"
        outcomes = collections.Counter(
            outcome_during_drain(c) for c in connections if c.sock.fileno() >= 0
        )
        print(outcomes)
        assert server.wait(20) == 0


def outcome_during_drain(connection):
    """What one client of a server that is shutting down got; anything else fails."""
    with connection as c:
        try:
            response = c.read_head()
        except (Closed, OSError):
            return "closed"  # before its request was read
        body = b"".join(c.pieces(response))  # a Closed in the middle is a failure
        if response.status == 503:
            response.body = body
            assert response.error()["code"] == "overloaded"
            return "refused"
        answer = sse.read_stream(body.decode())
        assert answer.choices or answer.error
        return "ended" if answer.error else "answered"


def test_key_reloads_during_requests(seed, tmp_path):
    """Accounts come and go under requests that hold them."""
    rng = random.Random(seed)
    keys = tmp_path / "keys"
    names = [f"key-of-tenant-{i}" for i in range(6)]

    def write():
        chosen = rng.sample(names, 3)
        keys.write_text("".join(f"t{rng.randrange(3)} {k} concurrent=2\n" for k in chosen))

    write()
    script = [{"out": "x" * 40, "pace_ms": 2, "times": "always"}]
    with Server(script=script, options=["--api-keys-file", keys]) as server:
        connections = []
        for i in range(300):
            c = Connection(server.port)
            bearer = ("Authorization", f"Bearer {rng.choice(names)}")
            c.send(chat_request(headers=[bearer], stream=True, **OFF))
            connections.append(c)
            if i % 10 == 0:
                write()
                server.signal(signal.SIGHUP)
        statuses = {c.read().status for c in connections}
        assert statuses <= {200, 401, 429} and {200, 401} <= statuses, statuses
        for c in connections:
            c.close()
        wait_until(lambda: metrics.running(server) == 0, 20, "everything ended")
