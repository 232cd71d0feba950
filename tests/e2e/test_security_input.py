"""Rows S11 and S12 of the security table (spec users.md §5): size, amplification and numbers."""

import re

import pytest

from harness import metrics
from harness.raw_http import Connection, chat_body, chat_request, once, request_bytes
from harness.server import REPOSITORY, Server, run_cli, wait_until

OFF = {"thinking": {"type": "disabled"}}
OK = {"out": "</think>ok", "times": "always"}
CHAT = "/v1/chat/completions"


# S11: request amplification and size. Limits of single fields at L and L + 1 are in tests/api and
# test_http.py.


def test_every_limit_is_listed():
    listed = run_cli("doctor", "limits")
    assert listed.returncode == 0, listed.stderr
    names = re.findall(r"SLUICE_LIMIT\(k(\w+),", (REPOSITORY / "src/base/limits.def").read_text())
    assert len(names) > 20
    flat = re.sub(r"[^a-z0-9]", "", listed.stdout.lower())
    for name in names:
        assert name.lower() in flat or name.lower().removeprefix("max") in flat, name
    for option in (
        "max-header",
        "max-body",
        "max-connections",
        "max-requests",
        "header-timeout",
        "idle-timeout",
    ):
        assert option in listed.stdout, option


def cpu_seconds(server):
    stat = open(f"/proc/{server.process.pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(stat[11]) + int(stat[12])) / 100


def test_cost_of_a_prompt_is_linear():
    """At n, 2n and 4n bytes: no step of reading, decoding or joining is quadratic."""
    with Server(script=[OK]) as server:
        costs = []
        for n in (1, 2, 4):
            parts = [{"type": "text", "text": "x" * 20}] * (4_000 * n)
            body = chat_body(messages=[{"role": "user", "content": parts}])
            begin = cpu_seconds(server)
            for _ in range(8):
                assert once(server.port, request_bytes("POST", CHAT, body=body)).status == 200
            costs.append(cpu_seconds(server) - begin)
        # Four times as much would be 4; quadratic growth would be 16. Ticks of 10 ms are the
        # smallest unit.
        assert costs[2] < 9 * max(costs[0], 0.05), costs


def test_many_values_in_a_small_body():
    """Memory is bounded by values, not only by bytes."""
    with Server(script=[OK]) as server:
        for body in (
            b'{"model":"deepseek-flash","messages":[%s]}' % b",".join([b"0"] * 5_000_000),
            b"[" * 3_000_000,
            b'{"a":' * 100_000,
            b'{"model":"deepseek-flash","messages":[{"role":"user","content":"x"}],"z":{%s}}'
            % b",".join(b'"k%d":1' % i for i in range(100_000)),
        ):
            response = once(server.port, request_bytes("POST", CHAT, body=body))
            assert response.status in (200, 400), response.body[:200]
        assert once(server.port, chat_request()).status == 200


def test_many_biases():
    with Server(script=[OK]) as server:
        bias = {str(i): 0 for i in range(1025)}
        response = once(server.port, chat_request(logit_bias=bias))
        assert response.status == 400 and "1024" in response.error()["message"]


def test_many_messages():
    with Server(script=[OK]) as server:
        for n, status in ((65_536, 200), (65_537, 400)):
            messages = [{"role": "user", "content": "x"}] * n
            response = once(server.port, chat_request(messages=messages))
            assert response.status == status, response.body[:200]


def test_slow_connections_do_not_keep_others_out():
    """Two hundred clients that send a head byte by byte, or a body that never comes."""
    with Server(
        script=[OK], options=["--header-timeout", "1500ms", "--body-timeout", "500ms"]
    ) as server:
        slow = [Connection(server.port) for _ in range(200)]
        for i, c in enumerate(slow):
            c.send(chat_request()[: -1 - i % 40] if i % 2 else b"POST /v1/ch")
        for _ in range(20):
            assert once(server.port, chat_request()).status == 200
        for c in slow:
            assert c.read().status == 408
            c.close()
        wait_until(lambda: metrics.value(server, "connections_open") <= 2, 10, "all of them gone")


# S12: numbers. Every numeric field with every kind of number; an independent oracle says which are
# allowed.

_NUMBERS = [
    "0", "-0", "1", "-1", "2", "3", "16", "17", "20", "21", "100", "101", "0.5", "-0.5", "1.5",
    "2.0000001", "-2", "-2.0000001", "1e0", "1e2", "1e-400", "5e-324", "1e308", "-1e308", "1e999",
    "-1e999", "393216", "393217", "2147483647", "2147483648", "4294967296", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551615",
    "18446744073709551616", "NaN", "Infinity", "-Infinity", "nan", "inf", "0x10", "00", "01", "+1",
    ".5", "1.", "1e", "--1", "1_000", '"1"', '"NaN"', '"1e999"', "true", "false", "[1]", '{"a":1}',
]  # fmt: skip
_INTEGERS = {
    "n": (1, 16),
    "max_tokens": (1, 393_216),
    "max_completion_tokens": (1, 393_216),
    "min_tokens": (0, 393_216),
    "top_logprobs": (0, 20),
    "seed": (0, 2**63 - 1),
}
_REALS = {
    "temperature": lambda x: 0 <= x <= 2,
    "top_p": lambda x: 0 < x <= 1,
    "frequency_penalty": lambda x: -2 <= x <= 2,
    "presence_penalty": lambda x: -2 <= x <= 2,
    "repetition_penalty": lambda x: 0 < x <= 2,
    "min_p": lambda x: 0 <= x <= 1,
}


def allowed(field, text):
    """True, False, or None where the specification leaves it open (integers as 1e0 or -0)."""
    if not re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", text):
        return False
    value = float(text)
    if value in (float("inf"), float("-inf")):
        return False
    if field in _REALS:
        return _REALS[field](value)
    low, high = _INTEGERS[field]
    if text == "-0" or not re.fullmatch(r"-?\d+", text):
        return None if value == int(value) and low <= value <= high else False
    return low <= int(text) <= high


@pytest.mark.parametrize("field", [*_INTEGERS, *_REALS])
def test_numeric_fields(field):
    with Server(script=[{"out": "ab", "times": "always"}]) as server, Connection(server.port) as c:
        for text in _NUMBERS:
            body = chat_body(**OFF, logprobs=True)[:-1] + b', "%s": %s}' % (
                field.encode(),
                text.encode(),
            )
            c.send(request_bytes("POST", CHAT, body=body))
            response = c.read()
            expected = allowed(field, text)
            if expected is None:
                assert response.status in (200, 400)
            else:
                assert response.status == (200 if expected else 400), (field, text, response.body)


def test_logit_bias_values():
    with Server(script=[{"out": "ab", "times": "always"}]) as server, Connection(server.port) as c:
        for text in _NUMBERS:
            body = chat_body(**OFF)[:-1] + b', "logit_bias": {"65": %s}}' % text.encode()
            c.send(request_bytes("POST", CHAT, body=body))
            value = (
                float(text)
                if re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", text)
                else 1e999
            )
            assert c.read().status == (200 if abs(value) <= 100 else 400), text
