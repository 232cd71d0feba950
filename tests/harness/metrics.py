"""Reads the Prometheus text of a running server."""

import re

from harness import raw_http
from harness.server import wait_until

_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)$")


def scrape(port):
    """(name, labels, value) of each sample."""
    response = raw_http.once(port, raw_http.request_bytes("GET", "/metrics"))
    assert response.status == 200, response.body
    assert response.header("content-type").startswith("text/plain")
    out = []
    for line in response.body.decode().splitlines():
        if line and not line.startswith("#"):
            found = _SAMPLE.match(line)
            assert found, f"bad metrics line {line!r}"
            out.append((found[1], found[2] or "", float(found[3])))
    return out


def value(server, suffix, labels=""):
    """The sum over all samples whose name ends in `suffix` and whose labels contain `labels`."""
    samples = scrape(server.admin_port)
    values = [v for name, found, v in samples if name.endswith(suffix) and labels in found]
    assert values, f"no metric ends in {suffix}"
    return sum(values)


def running(server):
    """Requests that hold an engine slot."""
    return value(server, "requests_running")


def wait_running(server, n, seconds=20):
    """The specification grants a cancelled request two seconds (script-format.md §5); a busy machine needs more, and
    what is never cancelled fails all the same.
    """
    wait_until(lambda: running(server) == n, seconds, f"requests_running = {n}")
