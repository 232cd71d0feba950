"""Makes hostile requests from a seed and fires them at a server: mutated valid ones, random bytes,
protocol violations,
broken connections. What the server owes in return: a well-formed answer below 500 or a closed
connection, nothing else.
"""

import copy
import json
import random
import socket

from harness import scan
from harness.raw_http import Closed, Connection, request_bytes

PATHS = (
    "/v1/chat/completions",
    "/chat/completions",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/completions",
    "/v1/completions/render",
    "/tokenize",
    "/v1/detokenize",
    "/v1/models",
    "/version",
    "/",
    "/metrics",
    "/nope",
    "/v1/models/x",
)
METHODS = ("GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "BREW")

_FIELDS = {
    "model": ["deepseek-flash", "gpt-9"],
    "messages": [
        [{"role": "user", "content": "hi"}],
        [
            {"role": "system", "content": "a"},
            {"role": "user", "content": [{"type": "text", "text": "b"}]},
        ],
        [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "t", "signature": ""},
                    {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "a", "content": "r"}],
            },
        ],
    ],
    "system": ["s", [{"type": "text", "text": "s"}]],
    "stop_sequences": [["x"]],
    "top_k": [1],
    "output_config": [{"effort": "low"}],
    "prompt": ["once", [104, 105]],
    "suffix": ["end"],
    "echo": [True],
    "stream": [True, False],
    "stream_options": [{"include_usage": True}],
    "temperature": [0, 1, 2, 0.5],
    "top_p": [1, 0.1],
    "n": [1, 2, 16],
    "stop": ["x", ["a", "b"]],
    "max_tokens": [1, 5, 393216],
    "max_completion_tokens": [3],
    "logprobs": [True],
    "top_logprobs": [0, 20],
    "seed": [0, 2**63 - 1],
    "logit_bias": [{"65": 1}],
    "tools": [
        [
            {
                "type": "function",
                "function": {"name": "f", "parameters": {"type": "object", "properties": {}}},
            }
        ]
    ],
    "tool_choice": ["auto", "none", "required", {"type": "function", "function": {"name": "f"}}],
    "response_format": [{"type": "text"}, {"type": "json_object"}],
    "thinking": [{"type": "disabled"}, {"type": "enabled"}],
    "reasoning_effort": ["none", "high", 50],
    "user": ["u"],
    "frequency_penalty": [-2, 2],
    "presence_penalty": [0],
    "repetition_penalty": [0.5, 2],
    "min_p": [0, 1],
    "min_tokens": [0, 1],
    "prompt_logprobs": [0, 20],
    "stop_token_ids": [[], [0, 97]],
    "parallel_tool_calls": [False],
    "chat_template_kwargs": [{"thinking": False}],
}

_JUNK = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 1e308, -1e308, 5e-324, "", "x",
    "\0", "\ud800", "🙂" * 50, "a" * 5000, [], {}, [[]], [None], {"": ""},
    {"a": {"b": [1, 2, {"c": None}]}}, "1", "NaN", "true", "</think>",
    "<｜DSML｜ calls>", "../../x",
    "%s%n%x", "\r\nX-Evil: 1", "\u2028", "ﬀ", "<[probe]>",
]  # fmt: skip

_RAW_NUMBERS = [
    "1e999", "-1e999", "NaN", "Infinity", "1e-400", "00", "+1", ".5", "1.", "0x10", "--1",
    "1" * 400,
]  # fmt: skip

_BAD_HEADERS = [
    "Content-Length: 5", "Content-Length: -5", "Content-Length: 5, 5", "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip", "Host: evil.example", "Host:", "Expect: 100-continue",
    "Expect: 200-maybe", "Connection: close", "Connection: upgrade", "Upgrade: websocket",
    "Upgrade: h2c", "Content-Encoding: gzip", "Content-Encoding: br", "Content-Type: text/xml",
    "Origin: https://evil.example", "Authorization: Bearer " + "k" * 5000,
    "Authorization: Basic Og==", "X-A: " + "a" * 9000, "X-B:", ": x", "X-C : x", " folded: x",
    "Range: bytes=0-1", "TE: trailers", "Cookie: a=b",
]  # fmt: skip


class Attack:
    """Bytes to send and how: `keep` on a shared connection, `half` closed for writing, `abort`
    closed or reset at once.
    """

    def __init__(self, kind, data, mode):
        self.kind, self.data, self.mode = kind, data, mode


class Generator:
    def __init__(self, seed):
        self.rng = random.Random(seed)

    def attack(self):
        kinds = (
            self.mutated_json,
            self.mutated_json,
            self.mutated_json,
            self.broken_json,
            self.bad_head,
            self.noise,
            self.cut,
        )
        return self.rng.choice(kinds)()

    def request(self):
        """A valid request object with random fields."""
        rng = self.rng
        names = ["model", "messages"] + rng.sample(sorted(_FIELDS), rng.randrange(5))
        return {name: rng.choice(_FIELDS[name]) for name in names}

    def mutated_json(self):
        """A whole HTTP request whose body is JSON with a few wrong values."""
        rng, body = self.rng, json.loads(json.dumps(self.request()))
        for _ in range(rng.randrange(4)):
            self._spoil(body)
        text = json.dumps(body, ensure_ascii=rng.random() < 0.7)
        if rng.random() < 0.1:
            text = text.replace("1", rng.choice(_RAW_NUMBERS), 1)
        data = request_bytes(
            "POST", rng.choice(PATHS[:2]), body=text.encode("utf-8", "surrogatepass")
        )
        return Attack("mutated json", data, "keep")

    def _junk(self):
        return copy.deepcopy(self.rng.choice(_JUNK))  # it will be spoilt itself

    def _spoil(self, body):
        """Replaces, removes or adds one value somewhere in `body`."""
        rng, at = self.rng, body
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                return
            key = rng.choice(keys)
            if isinstance(at[key], (dict, list)) and rng.random() < 0.6:
                at = at[key]
                continue
            action = rng.randrange(4)
            if action == 0 and isinstance(at, dict):
                del at[key]
            elif action == 1 and isinstance(at, dict):
                at[rng.choice(sorted(_FIELDS) + ["", "zz", "é", "a\r\nb: c"])] = self._junk()
            elif action == 2 and isinstance(at, list):
                at.extend([at[key]] * rng.choice([1, 20, 200]))
            else:
                at[key] = self._junk()
            return

    def broken_json(self):
        """A whole HTTP request whose body is a damaged JSON text."""
        body = self._damage(json.dumps(self.request()).encode())
        return Attack("broken json", request_bytes("POST", PATHS[0], body=body), "keep")

    def _damage(self, data):
        rng, data = self.rng, bytearray(data)
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(data) + 1)
            action = rng.randrange(4)
            if action == 0:
                data[at:at] = rng.randbytes(rng.randrange(1, 9))
            elif action == 1:
                del data[at : at + rng.randrange(1, 30)]
            elif action == 2:
                data[at:at] = data[: rng.randrange(60)]
            elif at < len(data):
                data[at] = rng.randrange(256)
        return bytes(data)

    def bad_head(self):
        """A request line and headers that contradict each other or the protocol."""
        rng = self.rng
        version = rng.choice(["HTTP/1.1"] * 8 + ["HTTP/1.0", "HTTP/2.0", "HTTP/1", ""])
        line = f"{rng.choice(METHODS)} {rng.choice(PATHS)} {version}"
        headers = ["Host: 127.0.0.1", "Content-Type: application/json"]
        headers += rng.sample(_BAD_HEADERS, rng.randrange(4))
        rng.shuffle(headers)
        end = rng.choice(["\r\n"] * 8 + ["\n", "\r"])
        head = end.join([line, *headers, "", ""]).encode("latin-1")
        body = rng.choice(
            [b"", b"{}", b"2\r\n{}\r\n0\r\n\r\n", b"zz\r\n", json.dumps(self.request()).encode()]
        )
        return Attack("bad head", head + body, "half")

    def noise(self):
        """A damaged valid request, or bytes that never were one."""
        rng = self.rng
        if rng.random() < 0.3:
            return Attack("noise", rng.randbytes(rng.randrange(1, 300)), "half")
        whole = request_bytes("POST", PATHS[0], body=json.dumps(self.request()).encode())
        return Attack("noise", self._damage(whole), "half")

    def cut(self):
        """A valid request whose client goes away somewhere on the way."""
        rng = self.rng
        whole = request_bytes(
            "POST",
            PATHS[0],
            body=json.dumps(self.request() | {"stream": rng.random() < 0.7}).encode(),
        )
        return Attack("cut", whole[: rng.randrange(1, len(whole) + 200)], "abort")


class Attacker:
    """Fires attacks at one server, one after the other."""

    def __init__(self, port, seed):
        self.port = port
        self.generator = Generator(seed)
        self.statuses = {}
        self._kept = None

    def fire(self, n):
        attack = None
        for i in range(n):
            attack, before = self.generator.attack(), attack
            try:
                getattr(self, "_" + attack.mode)(attack)
            except ConnectionRefusedError as error:  # the one before may have ended the server
                raise AssertionError(f"after attack {i} {before.kind}: {before.data!r}") from error
            except AssertionError as error:
                raise AssertionError(
                    f"attack {i} ({attack.kind}): {attack.data[:3000]!r}: {error}"
                ) from error
        if self._kept is not None:
            self._kept.close()

    def _note(self, attack, status):
        assert status < 500, f"status {status} for bad input"
        key = (attack.kind, status)
        self.statuses[key] = self.statuses.get(key, 0) + 1

    def _keep(self, attack):
        for again in (True, False):
            if self._kept is None:
                self._kept = Connection(self.port)
                again = False
            try:
                self._kept.send(attack.data)
                response = self._kept.read()
                break
            except (Closed, OSError) as error:
                # The server may close a connection between two requests; never in answer to a whole
                # one.
                self._kept.close()
                self._kept = None
                assert again, f"no answer to a whole request: {error!r}"
        self._note(attack, response.status)
        if response.header("connection") == "close":
            self._kept.close()
            self._kept = None

    def _half(self, attack):
        with Connection(self.port) as c:
            try:
                c.send(attack.data)
                c.sock.shutdown(socket.SHUT_WR)
            except OSError:
                return
            c.echoed = attack.data
            received = b""
            try:
                while piece := c.sock.recv(65536):
                    received += piece
            except ConnectionResetError:
                pass
            except TimeoutError as error:
                raise AssertionError("neither an answer nor the end") from error
            scan.check(received, attack.data)
            if received:
                assert received.startswith(b"HTTP/1.1 "), received[:100]
                status = int(received[9:12])
                self._note(
                    attack, status if status != 501 else 400
                )  # 501: a transfer coding we do not know

    def _abort(self, attack):
        rng = self.generator.rng
        c = Connection(self.port)
        try:
            c.send(attack.data)
            if rng.random() < 0.5:
                c.sock.settimeout(0.002)
                try:
                    c.sock.recv(rng.choice([1, 100, 5000]))
                except TimeoutError:
                    pass
        except OSError:
            pass
        if rng.random() < 0.5:
            c.reset()
        else:
            c.close()
