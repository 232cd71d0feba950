"""/tokenize, /detokenize and /render: keys, limits and load as of every other request."""

import json

from harness import metrics, raw_http
from harness.server import Server

HI = {"model": "deepseek-flash", "messages": [{"role": "user", "content": "hi"}]}
PATHS = {
    "/tokenize": {"prompt": "hi"},
    "/v1/detokenize": {"tokens": [104, 105]},
    "/v1/chat/completions/render": HI,
    "/v1/messages/count_tokens": HI | {"max_tokens": 1},
}


def post(server, path, body, headers=()):
    headers = [("Content-Type", "application/json"), *headers]
    request = raw_http.request_bytes("POST", path, headers, json.dumps(body).encode())
    return raw_http.once(server.port, request)


def test_they_need_a_key_and_hold_one_of_its_places(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("alice sk-alice-9f2c tokens-per-minute=20\n")
    with Server(script=[], options=["--api-keys-file", str(keys)]) as server:
        for path, body in PATHS.items():
            assert post(server, path, body).status == 401, path
            bearer = [("Authorization", "Bearer sk-alice-9f2c")]
            # They cost no tokens: a hundred prompts would be more than a minute has.
            for _ in range(100):
                assert post(server, path, body, bearer).status == 200, path


def test_large_and_compressed_bodies_are_bounded_like_all_others():
    text = "x" * 300_000
    with Server(script=[], options=["--max-body", "400KiB"]) as server:
        answer = post(server, "/tokenize", {"prompt": text, "return_token_strs": True})
        got = json.loads(answer.body)
        assert got["count"] == len(got["tokens"]) == len(got["token_strs"]) == len(text) + 1
        assert post(server, "/tokenize", {"prompt": text * 2}).status == 413
        assert metrics.value(server, "http_requests_total", 'route="tokenize",status="2xx"') == 1


def test_an_answer_that_is_too_large_to_hold_is_refused():
    with Server(script=[], options=["--max-buffered", "1MiB"]) as server:
        answer = post(server, "/tokenize", {"prompt": "x" * 200_000, "return_token_strs": True})
        assert answer.status == 503 and answer.header("retry-after")
        assert post(server, "/tokenize", {"prompt": "x" * 1000}).status == 200


def test_switched_off_they_do_not_exist_and_count_tokens_does():
    with Server(script=[], options=["--no-token-endpoints"]) as server:
        for path, body in PATHS.items():
            wanted = 200 if path.endswith("count_tokens") else 404
            assert post(server, path, body).status == wanted, path
