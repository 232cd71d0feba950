"""A strict HTTP/1.1 client over a bare socket: sends any bytes, reads responses only if they are
well formed.
"""

import json
import socket
import ssl
from dataclasses import dataclass, field

from harness import scan

# Longer than any answer takes on a busy machine under a sanitizer; a test that waits this long has
# failed.
TIMEOUT_SECONDS = 30


class Closed(Exception):
    """The server closed the connection where a response should have gone on."""


@dataclass
class Response:
    status: int
    reason: str
    version: str
    headers: list  # (lower-case name, value), in order
    body: bytes = b""
    interim: list = field(default_factory=list)  # status codes of 1xx answers before it
    trailers: list = field(default_factory=list)

    def header(self, name):
        """The value, None if absent; a name must not come twice."""
        values = [v for k, v in self.headers if k == name.lower()]
        assert len(values) < 2, f"{name} twice: {values}"
        return values[0] if values else None

    def json(self):
        return json.loads(self.body)

    def error(self):
        """The error object of an OpenAI-style error body, which must be complete."""
        assert self.header("content-type").startswith("application/json"), self.headers
        error = self.json()["error"]
        assert set(error) >= {"message", "type", "param", "code"}, error
        assert isinstance(error["message"], str) and error["message"], error
        assert isinstance(error["type"], str) and error["type"], error
        return error

    def anthropic_error(self):
        """The error object of an Anthropic-style error body, which must be complete."""
        assert self.header("content-type").startswith("application/json"), self.headers
        body = self.json()
        assert set(body) == {"type", "error", "request_id"} and body["type"] == "error", body
        assert body["request_id"] == self.header("request-id"), body
        error = body["error"]
        assert set(error) - {"code"} == {"message", "type"}, error
        assert isinstance(error["message"], str) and error["message"], error
        assert isinstance(error["type"], str) and error["type"], error
        return error


def tls_context():
    """Trusts anything: these tests look at HTTP, not at certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def request_bytes(method, path, headers=(), body=None, version="HTTP/1.1", host="127.0.0.1"):
    """A request as bytes; Content-Type and Content-Length are added for a body unless given (None:
    left out).
    """
    names = {k.lower() for k, _ in headers}
    lines = [f"{method} {path} {version}"]
    if "host" not in names and host is not None:
        lines.append(f"Host: {host}")
    if body is not None and "content-type" not in names:
        lines.append("Content-Type: application/json")
    if body is not None and not names & {"content-length", "transfer-encoding"}:
        lines.append(f"Content-Length: {len(body)}")
    lines += [f"{k}: {v}" for k, v in headers if v is not None]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


def chat_body(text="hi", **fields):
    """The bytes of a chat request."""
    whole = {"model": "deepseek-flash", "messages": [{"role": "user", "content": text}]} | fields
    return json.dumps(whole, ensure_ascii=False).encode("utf-8", "surrogatepass")


def chat_request(text="hi", headers=(), path="/v1/chat/completions", **fields):
    return request_bytes("POST", path, headers, chat_body(text, **fields))


class Connection:
    """One TCP (or TLS) connection to a server."""

    def __init__(self, port, tls=False, timeout=TIMEOUT_SECONDS, receive_buffer=None):
        self.sock = socket.socket()
        if (
            receive_buffer is not None
        ):  # before connecting, so that the window is small from the start
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(timeout)
        self.sock.connect(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.sock = tls_context().wrap_socket(self.sock)
        self._buffer = bytearray()
        self.seen = bytearray()  # of the response being read, for the scanner
        self.echoed = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def reset(self):
        """Closes with RST: what was sent and not read is thrown away."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()

    # Sending.

    def send(self, data):
        self.echoed = data
        self.sock.sendall(data)
        return self

    def send_bytewise(self, data):
        self.echoed = data
        for i in range(len(data)):
            self.sock.sendall(data[i : i + 1])
        return self

    def get(self, path, headers=(), method="GET", **more):
        self.send(request_bytes(method, path, headers, **more))
        return self.read(head=method == "HEAD")

    def chat(self, text="hi", **more):
        self.send(chat_request(text, **more))
        return self.read()

    # Receiving.

    def _fill(self):
        data = self.sock.recv(65536)
        if not data:
            raise Closed(bytes(self._buffer[:200]))
        self._buffer += data

    def _line(self):
        while (end := self._buffer.find(b"\r\n")) < 0:
            assert len(self._buffer) < 1 << 20, "endless header line"
            self._fill()
        line = self._take(end + 2)[:-2]
        assert b"\n" not in line and b"\r" not in line, f"bare line end in {line!r}"
        return line

    def _exactly(self, n):
        while len(self._buffer) < n:
            self._fill()
        return self._take(n)

    def _take(self, n):
        data = bytes(self._buffer[:n])
        del self._buffer[:n]
        self.seen += data
        return data

    def _fields(self):
        fields = []
        while line := self._line():
            name, colon, value = line.partition(b":")
            assert colon and name and name == name.strip(), f"bad header {line!r}"
            fields.append((name.decode("ascii").lower(), value.strip().decode("latin-1")))
        return fields

    def read_head(self):
        """Status line and headers of the next final response."""
        self.seen = bytearray()
        interim = []
        while True:
            line = self._line().decode("ascii")
            version, _, rest = line.partition(" ")
            status, _, reason = rest.partition(" ")
            assert (
                version in ("HTTP/1.1", "HTTP/1.0") and len(status) == 3
            ), f"bad status line {line!r}"
            headers = self._fields()
            if not status.startswith("1"):
                return Response(int(status), reason, version, headers, interim=interim)
            interim.append(int(status))

    def read(self, head=False):
        """The next final response with its body."""
        response = self.read_head()
        response.body = b"".join(self.pieces(response, head))
        scan.check(bytes(self.seen), self.echoed)
        return response

    def pieces(self, response, head=False):
        """The body of `response` as it comes; chunks one by one."""
        encoding, length = response.header("transfer-encoding"), response.header("content-length")
        assert encoding is None or length is None, "both framings"
        if head or response.status in (204, 304):
            return
        if encoding is not None:
            assert encoding == "chunked", encoding
            while n := int(self._line().split(b";")[0], 16):
                yield self._exactly(n)
                assert self._exactly(2) == b"\r\n", "chunk without its end"
            response.trailers = self._fields()
        elif length is not None:
            yield self._exactly(int(length))
        else:
            assert response.header("connection") == "close", "a body without framing or close"
            try:
                while True:
                    if not self._buffer:
                        self._fill()
                    yield self._exactly(len(self._buffer))
            except Closed:
                return

    def closed(self, seconds=TIMEOUT_SECONDS):
        """Whether the server closes now, with nothing more to say."""
        assert not self._buffer, bytes(self._buffer[:500])
        self.sock.settimeout(seconds)
        try:
            return self.sock.recv(1) == b""
        except (ConnectionResetError, BrokenPipeError):
            return True
        except (TimeoutError, ssl.SSLError):
            return False


def once(port, data, head=False, tls=False):
    """Sends `data` on a connection of its own and reads one response."""
    with Connection(port, tls=tls) as connection:
        connection.send(data)
        return connection.read(head)
