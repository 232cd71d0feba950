"""The response scanner of security row S18: every response that a test receives passes here.

No response may show an address, a path of this machine or of the sources, or a key. What one
request's response may
not show of another request is checked where both are known (test_security.py).
"""

import re

_forbidden = set()
_PATTERNS = {
    "an address": re.compile(rb"0x[0-9a-fA-F]{6,}"),
    "a source file": re.compile(rb"\b[\w/]+\.(?:cc|cpp|hpp|h):\d+"),
    "a path": re.compile(rb"(?<![\w:/])/(?:root|home|tmp|usr|etc|var|proc|opt|work|mnt)/[\w.]"),
    "a C++ name": re.compile(rb"\b(?:std|boost|sluice)::\w"),
    "a library's own error text": re.compile(rb"asio\.misc|beast\.http|system:\d+"),
}


def forbid(secret):
    """No response may show `secret` (a key) from now on."""
    _forbidden.add(secret.encode() if isinstance(secret, str) else secret)


def check(data, echoed=b""):
    """Fails if `data`, the bytes of a response, shows what it must not. `echoed`: what the request
    said itself.
    """
    for secret in _forbidden:
        assert secret not in data, f"a key in a response: {data[:2000]!r}"
    for name, pattern in _PATTERNS.items():
        for found in pattern.finditer(data):
            if found.group() not in echoed:
                raise AssertionError(f"{name} in a response: {found.group()!r} in {data[:2000]!r}")
