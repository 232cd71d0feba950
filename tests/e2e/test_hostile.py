"""Hostile requests from a seed (rows S11, S12, S22): the server lives, its memory stays flat, a
neighbour notices nothing.
"""

import threading

import pytest

from e2e.hostile import Attacker
from harness import metrics, sse
from harness.raw_http import Connection
from harness.server import Server, wait_until

OFF = {"thinking": {"type": "disabled"}}
PROBE_TEXT = "0123456789" * 20
SCRIPT = [
    {"when": {"last": "[[probe]]"}, "out": PROBE_TEXT, "pace_ms": 2, "times": "always"},
    {"out": "t</think>abc", "times": "always"},
]


class Probe(threading.Thread):
    """A well-behaved client beside the hostile ones: every answer must be whole."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port = port
        self.n_whole = 0
        self.error = None
        self._ended = threading.Event()
        self.start()

    def run(self):
        try:
            with Connection(self.port) as c:
                while not self._ended.is_set():
                    response = c.chat("[[probe]]", stream=True, **OFF)
                    assert sse.read_stream(response.body.decode()).choices[0].content == PROBE_TEXT
                    self.n_whole += 1
        except Exception as error:  # noqa: BLE001 — whatever it was, the test reports it
            self.error = error

    def finish(self):
        self._ended.set()
        self.join(60)
        assert self.error is None, f"the probe stream broke: {self.error!r}"
        assert self.n_whole >= 1


def attack(seed, n):
    with Server(script=SCRIPT, options=["--log-level", "error"]) as server:
        probe = Probe(server.port)
        attacker = Attacker(server.port, seed)
        attacker.fire(n // 5)  # warm: allocator arenas, buffers, the sanitizer's quarantine
        warm = server.rss_bytes()
        attacker.fire(n - n // 5)
        growth = server.rss_bytes() - warm
        probe.finish()
        assert server.alive()
        wait_until(lambda: metrics.running(server) == 0, 20, "everything ended")
        print(f"{n} requests, {growth >> 10} KiB more, {attacker.statuses}")
        limit = (64 if server.is_sanitized() else 16) << 20
        assert growth < limit, f"memory grew by {growth} bytes"
        seen = {status for _, status in attacker.statuses}
        assert {200, 400, 404} <= seen, "the attacks no longer reach what they are meant to reach"


def test_a_few_thousand_hostile_requests(seed):
    attack(seed, 3_000)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_thousand_hostile_requests(seed):
    attack(seed, 100_000)
