"""Small helpers of the HTTP tests."""

CHAT = "/v1/chat/completions"


def content(response):
    """The text of an accepted, whole answer."""
    assert response.status == 200, response.body
    return response.json()["choices"][0]["message"]["content"]


def refused(response, status):
    """The error object of a refusal."""
    assert response.status == status, response.body
    return response.error()


def chunked(pieces, extension=b"", trailers=b""):
    """`pieces` in chunked coding."""
    body = b"".join(b"%x%s\r\n%s\r\n" % (len(p), extension, p) for p in pieces)
    return body + b"0%s\r\n%s\r\n" % (extension, trailers)


def pieces_of(data, n):
    return [data[i : i + n] for i in range(0, len(data), n)]
