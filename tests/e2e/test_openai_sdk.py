"""The official OpenAI SDK against a real socket: what it accepts, which exceptions it raises, how
it cancels.
"""

import threading

import httpx2
import openai
import pytest

from harness import metrics, scan
from harness.server import Server, wait_until

MODEL = "deepseek-flash"
OFF = {"thinking": {"type": "disabled"}}
SAY_HI = [{"role": "user", "content": "hi"}]
# Of SAY_HI, one token a byte: 91 of the effort, 2 of the text, 5 control tokens.
PROMPT_TOKENS = 98
LONG = {"out": "x" * 100_000, "pace_ms": 1, "times": "always"}


def _scan(response):
    if "event-stream" not in response.headers.get("content-type", ""):
        scan.check(response.read())


def client(server, key="anything", retries=0, **more):
    http = httpx2.Client(event_hooks={"response": [_scan]}, trust_env=False)
    return openai.OpenAI(
        base_url=f"http://127.0.0.1:{server.port}/v1",
        api_key=key,
        max_retries=retries,
        timeout=30,
        http_client=http,
        **more,
    )


def ask(sdk, **more):
    body = {"model": MODEL, "messages": SAY_HI} | more
    return sdk.chat.completions.create(**body)


def test_whole_answer():
    with Server(script=["so\n</think>Hello"]) as server:
        answer = ask(client(server))
        assert answer.choices[0].message.content == "Hello"
        assert answer.choices[0].message.reasoning_content == "so"
        assert answer.choices[0].finish_reason == "stop"
        assert answer.model == MODEL
        assert answer.usage.prompt_tokens == PROMPT_TOKENS
        assert answer.usage.total_tokens == PROMPT_TOKENS + len("so\n") + 1 + len("Hello")
        assert answer.usage.completion_tokens_details.reasoning_tokens == 2
        assert answer._request_id


def test_stream():
    with Server(script=["so\n</think>Hello"]) as server:
        chunks = list(ask(client(server), stream=True))
        assert "".join(c.choices[0].delta.content or "" for c in chunks) == "Hello"
        assert chunks[0].choices[0].delta.role == "assistant"
        assert [c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason] == [
            "stop"
        ]
        assert all(c.usage is None for c in chunks[:-1])


def test_stream_with_usage():
    with Server(script=["</think>Hello"]) as server:
        chunks = list(ask(client(server), stream=True, stream_options={"include_usage": True}))
        assert chunks[-1].choices == []
        assert chunks[-1].usage.completion_tokens == 1 + len("Hello")
        assert all(c.usage is None for c in chunks[:-1])


def test_stream_arrives_as_it_is_made():
    """The first chunk is there long before the last token."""
    with Server(script=[{"out": "ab", "hang_after": 1, "times": "always"}]) as server:
        stream = ask(client(server), stream=True, extra_body=OFF)
        assert any(c.choices[0].delta.content == "a" for c in stream)
        stream.close()


def test_several_choices():
    with Server(script=["</think>yes"]) as server:
        answer = ask(client(server), n=3)
        assert [c.index for c in answer.choices] == [0, 1, 2]
        assert {c.message.content for c in answer.choices} == {"yes"}


def test_logprobs():
    with Server(script=[{"out": "</think>ab", "logprob": -0.5}]) as server:
        answer = ask(client(server), logprobs=True, top_logprobs=2)
        entries = answer.choices[0].logprobs.content
        assert [(e.token, e.logprob, e.bytes) for e in entries] == [
            ("a", -0.5, [97]),
            ("b", -0.5, [98]),
        ]
        assert all(len(e.top_logprobs) == 2 for e in entries)


def test_models():
    with Server() as server:
        sdk = client(server)
        listed = list(sdk.models.list())
        assert MODEL in [m.id for m in listed]
        assert all(m.object == "model" for m in listed)
        assert sdk.models.retrieve(MODEL).id == MODEL
        with pytest.raises(openai.NotFoundError):
            sdk.models.retrieve("gpt-9")


def test_request_id_is_in_the_headers():
    with Server(script=["</think>a", "</think>b"]) as server:
        sdk = client(server)
        raw = [
            sdk.chat.completions.with_raw_response.create(model=MODEL, messages=SAY_HI)
            for _ in range(2)
        ]
        ids = [r.headers["x-request-id"] for r in raw]
        assert all(ids) and ids[0] != ids[1]


def test_bad_request():
    with Server() as server:
        with pytest.raises(openai.BadRequestError) as caught:
            ask(client(server), temperature=3)
        assert caught.value.code == "invalid_request_error"
        assert "temperature" in caught.value.message and "[0, 2]" in caught.value.message
        assert caught.value.request_id


def test_no_or_wrong_key():
    with Server(script=["</think>a"], options=["--api-key", "right-key-3141"]) as server:
        with pytest.raises(openai.AuthenticationError):
            ask(client(server, key="wrong-key-2718"))
        with pytest.raises(openai.AuthenticationError):
            client(server, key="wrong-key-2718").models.list()
        assert ask(client(server, key="right-key-3141")).choices[0].message.content == "a"


def test_unknown_model():
    with Server() as server:
        with pytest.raises(openai.NotFoundError) as caught:
            ask(client(server), model="gpt-9")
        assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


def test_unknown_path():
    with Server() as server:
        with pytest.raises(openai.NotFoundError):
            client(server).embeddings.create(model=MODEL, input="x")


def test_too_large_body():
    with Server(options=["--max-body", "64KiB"]) as server:
        with pytest.raises(openai.APIStatusError) as caught:
            ask(client(server), messages=[{"role": "user", "content": "x" * 70_000}])
        assert caught.value.status_code == 413


def test_wrong_content_type():
    with Server() as server:
        with pytest.raises(openai.APIStatusError) as caught:
            ask(client(server), extra_headers={"Content-Type": "text/plain"})
        assert caught.value.status_code == 415


def test_context_overflow_names_the_limit():
    with Server(script=[{"refuse": "context"}]) as server:
        with pytest.raises(openai.BadRequestError) as caught:
            ask(client(server))
        assert caught.value.code == "context_length_exceeded"


def test_rate_limit_of_the_engine():
    with Server(script=[{"refuse": "rate_limit", "retry_after_ms": 1500}]) as server:
        with pytest.raises(openai.RateLimitError) as caught:
            ask(client(server))
        assert caught.value.response.headers["retry-after"] == "2"
        assert caught.value.response.headers["retry-after-ms"] == "1500"


def test_rate_limit_is_retried():
    """A retry is a new request and takes the next line."""
    with Server(script=[{"refuse": "rate_limit", "retry_after_ms": 20}, "</think>later"]) as server:
        assert ask(client(server, retries=2)).choices[0].message.content == "later"


def keys_file(folder, text):
    path = folder / "keys"
    path.write_text(text)
    return ["--api-keys-file", path]


def test_concurrency_limit_of_a_key(tmp_path):
    options = keys_file(tmp_path, "ann key-of-ann-99 concurrent=1\nbob key-of-bob-98\n")
    line = {"out": "ab", "hang_after": 1, "times": "always"}
    with Server(script=[line], options=options) as server:
        ann, bob = client(server, key="key-of-ann-99"), client(server, key="key-of-bob-98")
        first = ask(ann, stream=True, extra_body=OFF)
        with pytest.raises(openai.RateLimitError) as caught:
            ask(ann, extra_body=OFF)
        assert int(caught.value.response.headers["retry-after"]) >= 1
        other = ask(bob, stream=True, extra_body=OFF)  # another key is not concerned
        first.close()
        metrics.wait_running(server, 1)
        again = ask(ann, stream=True, extra_body=OFF)
        again.close()
        other.close()
        metrics.wait_running(server, 0)


def test_token_rate_limit_of_a_key(tmp_path):
    options = keys_file(tmp_path, "ann key-of-ann-99 tokens-per-minute=100\n")
    line = {"out": "</think>" + "x" * 300, "times": "always"}
    with Server(script=[line], options=options) as server:
        sdk = client(server, key="key-of-ann-99")
        ask(sdk)
        with pytest.raises(openai.RateLimitError) as caught:
            ask(sdk)
        assert int(caught.value.response.headers["retry-after"]) > 60


def test_overloaded():
    with Server(script=[{"refuse": "overloaded"}]) as server:
        with pytest.raises(openai.InternalServerError) as caught:
            ask(client(server))
        assert caught.value.status_code == 503
        assert caught.value.response.headers["retry-after-ms"] == "1000"


@pytest.mark.parametrize("fault", ["fail_after", "sick_after"])
def test_engine_failure(fault):
    with Server(script=[{"out": "</think>abc", fault: 2, "times": "always"}]) as server:
        sdk = client(server)
        with pytest.raises(openai.InternalServerError) as caught:
            ask(sdk)
        assert caught.value.status_code == 500
        text = ""
        with pytest.raises(openai.APIError):
            for chunk in ask(sdk, stream=True):
                text += chunk.choices[0].delta.content or ""
        assert text == "a"
        metrics.wait_running(server, 0)


def test_closing_a_stream_cancels():
    with Server(script=[LONG]) as server:
        stream = ask(client(server), stream=True)
        next(stream)
        assert metrics.running(server) == 1
        stream.close()
        metrics.wait_running(server, 0)
        assert metrics.value(server, "client_disconnects_total") == 1


def test_closing_a_stream_of_several_choices_cancels_all():
    with Server(script=[LONG]) as server:
        stream = ask(client(server), stream=True, n=4)
        next(stream)
        wait_until(lambda: metrics.running(server) == 4, 20, "four choices running")
        stream.close()
        metrics.wait_running(server, 0)


def test_closing_outside_a_stream_cancels():
    with Server(script=[{"out": "x", "hang_after": 0, "times": "always"}]) as server:
        sdk = client(server)
        thread = threading.Thread(
            target=lambda: pytest.raises(openai.APIError, ask, sdk, timeout=1)
        )
        thread.start()
        wait_until(lambda: metrics.running(server) == 1, 20, "the request running")
        thread.join()
        metrics.wait_running(server, 0)
        assert metrics.value(server, "client_disconnects_total") == 1


def test_deadline_ends_a_hanging_request():
    line = {"out": "ab", "hang_after": 1, "times": "always"}
    with Server(script=[line], options=["--request-timeout", "300ms"]) as server:
        sdk = client(server)
        with pytest.raises(openai.InternalServerError) as caught:
            ask(sdk, extra_body=OFF)
        assert caught.value.status_code == 504
        with pytest.raises(openai.APIError):
            list(ask(sdk, stream=True, extra_body=OFF))
        metrics.wait_running(server, 0)


def test_script_lines_replay_in_order():
    script = [
        "</think>one",
        {"out": "</think>two", "times": 2},
        {"out": "</think>rest", "times": "always"},
    ]
    with Server(script=script) as server:
        sdk = client(server)
        got = [ask(sdk).choices[0].message.content for _ in range(5)]
        assert got == ["one", "two", "two", "rest", "rest"]


def test_refused_requests_take_no_script_line():
    with Server(script=["</think>one"]) as server:
        sdk = client(server)
        for bad in ({"temperature": 9}, {"model": "gpt-9"}, {"n": 0}):
            with pytest.raises(openai.APIStatusError):
                ask(sdk, **bad)
        assert ask(sdk).choices[0].message.content == "one"
        assert ask(sdk).choices[0].message.content == "SCRIPT EXHAUSTED"


def test_unicode_and_long_answers_arrive_whole():
    text = 'Größe 日本語 🙂\u2028 "quoted" \\ ' * 500
    with Server(
        script=[{"out": "</think>" + text, "times": "always", "tokens_per_event": 7}]
    ) as server:
        sdk = client(server)
        assert ask(sdk).choices[0].message.content == text
        chunks = ask(sdk, stream=True)
        assert "".join(c.choices[0].delta.content or "" for c in chunks) == text
