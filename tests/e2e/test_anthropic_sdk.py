"""The official Anthropic SDK against a real socket: what it accepts, which exceptions it raises."""

import anthropic
import httpx2
import pytest

from harness import metrics, scan
from harness.byte_tokenizer import FRAME, PLAIN_FRAME
from harness.server import Server

MODEL = "claude-sonnet-5"
OFF = {"type": "disabled"}
SAY_HI = [{"role": "user", "content": "hi"}]
TOOL = {"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {}}}


def _scan(response):
    if "event-stream" not in response.headers.get("content-type", ""):
        scan.check(response.read())


def client(server, key="anything", retries=0, prefix="", **more):
    http = anthropic.DefaultHttpxClient(event_hooks={"response": [_scan]}, trust_env=False)
    return anthropic.Anthropic(
        base_url=f"http://127.0.0.1:{server.port}{prefix}",
        api_key=key,
        max_retries=retries,
        timeout=30,
        http_client=http,
        **more,
    )


def ask(sdk, **more):
    return sdk.messages.create(**{"model": MODEL, "max_tokens": 100, "messages": SAY_HI} | more)


def test_whole_answer():
    with Server(script=["so\n</think>Hello"]) as server:
        answer = ask(client(server))
        assert [b.type for b in answer.content] == ["thinking", "text"]
        assert answer.content[0].thinking == "so" and answer.content[0].signature
        assert answer.content[1].text == "Hello"
        assert (answer.stop_reason, answer.stop_sequence) == ("end_turn", None)
        assert answer.model == MODEL and answer.id.startswith("msg_")
        assert answer.usage.input_tokens == FRAME + len("hi")
        assert answer.usage.output_tokens == len("so\n") + 1 + len("Hello")
        assert answer._request_id


def test_stream():
    with Server(script=["so\n</think>Hello"]) as server:
        events = list(ask(client(server), stream=True))
        kinds = [e.type for e in events]
        assert kinds[:2] == ["message_start", "content_block_start"]
        assert kinds[-2:] == ["message_delta", "message_stop"]
        deltas = [e.delta for e in events if e.type == "content_block_delta"]
        assert "".join(d.text for d in deltas if d.type == "text_delta") == "Hello"
        assert "".join(d.thinking for d in deltas if d.type == "thinking_delta") == "so"
        assert events[-2].usage.output_tokens == len("so\n") + 1 + len("Hello")


def test_stream_helper_puts_the_same_message_together():
    line = "plan</think>Größe 日本語 🙂"
    with Server(script=[line, line]) as server:
        sdk = client(server)
        with sdk.messages.stream(model=MODEL, max_tokens=100, messages=SAY_HI) as stream:
            text = "".join(stream.text_stream)
            streamed = stream.get_final_message()
        whole = ask(sdk)
        assert text == "Größe 日本語 🙂"
        for field in ("stop_reason", "usage", "role", "model"):
            assert getattr(streamed, field) == getattr(whole, field)
        got, wanted = ([b.model_dump(exclude={"signature"}) for b in m.content] for m in (streamed, whole))
        assert got == wanted


def test_c20_usage_is_in_the_first_event():
    """Case C20: the true count of the prompt, repeated at the end."""
    with Server(script=["</think>a"]) as server:
        events = list(ask(client(server), stream=True, system="be brief"))
        start, end = events[0].message.usage, events[-2].usage
        prompt = FRAME + len("be briefhi")
        assert start.input_tokens + start.cache_read_input_tokens == prompt
        assert end.input_tokens + end.cache_read_input_tokens == prompt
        assert (start.cache_creation_input_tokens, start.output_tokens) == (0, 0)


def test_c21_stop_sequence():
    """Case C21."""
    with Server(script=["</think>a END b", "</think>a"]) as server:
        sdk = client(server)
        answer = ask(sdk, stop_sequences=["END"])
        assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "END")
        assert ask(sdk, stop_sequences=["END"]).stop_reason == "end_turn"


def test_c22_thinking_comes_first_in_a_stream():
    """Case C22: the order of blocks and their indexes."""
    with Server(script=["why</think>so"]) as server:
        stream = ask(client(server), stream=True, thinking={"type": "enabled", "budget_tokens": 1024})
        order = [
            (e.type, e.index) for e in stream if e.type in ("content_block_start", "content_block_stop")
        ]
        assert order == [
            ("content_block_start", 0),
            ("content_block_stop", 0),
            ("content_block_start", 1),
            ("content_block_stop", 1),
        ]


def test_c23_thinking_of_history_goes_back_as_it_came():
    """Case C23: our own blocks, and those of others with an empty signature."""
    with Server(script=["t</think>one", "</think>two"]) as server:
        sdk = client(server)
        first = ask(sdk, tools=[TOOL])
        other = [
            {"type": "thinking", "thinking": "x", "signature": ""},
            {"type": "redacted_thinking", "data": "zz"},
            {"type": "text", "text": "y"},
        ]
        messages = [
            *SAY_HI,
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": "and?"},
            {"role": "assistant", "content": other},
            {"role": "user", "content": "so?"},
        ]
        assert ask(sdk, messages=messages, tools=[TOOL]).content[-1].text == "two"


def test_tool_loop():
    messages = [
        *SAY_HI,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "42"}]},
    ]
    line = {"when": {"tool": "f", "last": "42"}, "out": "</think>It is 42."}
    with Server(script=[line]) as server:
        answer = ask(client(server), messages=messages, tools=[TOOL])
        assert answer.content[-1].text == "It is 42."


def test_count_tokens():
    """The same count as the answer's usage, and no script line is taken."""
    with Server(script=["</think>one", "</think>two"]) as server:
        sdk = client(server)
        system = [{"type": "text", "text": "x-anthropic-billing-header: 1"}, {"type": "text", "text": "s"}]
        counted = sdk.messages.count_tokens(model=MODEL, messages=SAY_HI, system=system)
        answer = ask(sdk, system=system)
        usage = answer.usage
        assert counted.input_tokens == usage.input_tokens + usage.cache_read_input_tokens == FRAME + len("shi")
        assert answer.content[-1].text == "one"
        with pytest.raises(anthropic.BadRequestError, match="at least one message"):
            sdk.messages.count_tokens(model=MODEL, messages=[])
        assert metrics.running(server) == 0


def test_count_tokens_of_a_large_prompt():
    with Server() as server:
        text = "x" * 1_000_000
        sdk = client(server, prefix="/anthropic")
        counted = sdk.messages.count_tokens(
            model=MODEL, messages=[{"role": "user", "content": text}]
        )
        assert counted.input_tokens == FRAME + len(text)


def test_models():
    with Server() as server:
        sdk = client(server)
        page = sdk.models.list()
        listed = list(page)
        assert "deepseek-flash" in [m.id for m in listed]
        assert (page.has_more, page.first_id, page.last_id) == (False, listed[0].id, listed[-1].id)
        model = sdk.models.retrieve("deepseek-flash")
        assert (model.type, model.display_name) == ("model", "deepseek-flash")
        assert model.created_at.year >= 2024
        assert (model.max_input_tokens, model.max_tokens) == (1_048_576, 393_216)
        assert model.context_length == 1_048_576 and model.max_output_tokens == 393_216
        with pytest.raises(anthropic.NotFoundError) as caught:
            sdk.models.retrieve("gpt-9")
        assert caught.value.body["error"]["type"] == "not_found_error"


def test_path_prefix_of_the_hosted_service():
    with Server(script=["</think>a"]) as server:
        sdk = client(server, prefix="/anthropic")
        assert ask(sdk).content[-1].text == "a"
        assert sdk.models.list().data[0].type == "model"


def test_bad_request():
    with Server() as server:
        with pytest.raises(anthropic.BadRequestError) as caught:
            ask(client(server), extra_body={"temperature": 3})
        assert caught.value.body["error"]["type"] == "invalid_request_error"
        assert "[0, 2]" in caught.value.body["error"]["message"]
        assert caught.value.request_id == caught.value.body["request_id"]


@pytest.mark.parametrize("by", ["x-api-key", "bearer"])
def test_no_or_wrong_key(by):
    with Server(script=["</think>a"], options=["--api-key", "right-key-3141"]) as server:

        def sdk(key):
            if by == "x-api-key":
                return client(server, key=key)
            return client(server, key=None, auth_token=key)

        with pytest.raises(anthropic.AuthenticationError) as caught:
            ask(sdk("wrong-key-2718"))
        assert caught.value.body["error"]["type"] == "authentication_error"
        with pytest.raises(anthropic.AuthenticationError):
            sdk("wrong-key-2718").messages.count_tokens(model=MODEL, messages=SAY_HI)
        with pytest.raises(anthropic.AuthenticationError) as caught:
            sdk("wrong-key-2718").models.list()
        assert caught.value.body["error"]["type"] == "authentication_error"
        assert ask(sdk("right-key-3141")).content[-1].text == "a"


def test_too_large_body():
    with Server(options=["--max-body", "64KiB"]) as server:
        with pytest.raises(anthropic.APIStatusError) as caught:
            ask(client(server), messages=[{"role": "user", "content": "x" * 70_000}])
        assert caught.value.status_code == 413
        assert caught.value.body["error"]["type"] == "request_too_large"


def test_c28_context_overflow_names_the_limit():
    """Case C28."""
    with Server(options=["--context", "100"]) as server:
        with pytest.raises(anthropic.BadRequestError, match="prompt is too long: 198 tokens > 100 maximum"):
            ask(client(server))


def test_overloaded():
    with Server(script=[{"refuse": "overloaded"}]) as server:
        with pytest.raises(anthropic.APIStatusError) as caught:
            ask(client(server))
        assert caught.value.status_code == 529
        assert caught.value.body["error"]["type"] == "overloaded_error"
        assert caught.value.response.headers["retry-after-ms"] == "1000"


def test_rate_limit_is_retried():
    """A retry is a new request and takes the next line."""
    with Server(script=[{"refuse": "rate_limit", "retry_after_ms": 20}, "</think>later"]) as server:
        assert ask(client(server, retries=2)).content[-1].text == "later"


@pytest.mark.parametrize("fault", ["fail_after", "sick_after"])
def test_engine_failure(fault):
    with Server(script=[{"out": "abc", fault: 1, "times": "always"}]) as server:
        sdk = client(server)
        with pytest.raises(anthropic.InternalServerError) as caught:
            ask(sdk, thinking=OFF)
        assert caught.value.status_code == 500
        text = ""
        with pytest.raises(anthropic.APIError):
            for event in ask(sdk, thinking=OFF, stream=True):
                if event.type == "content_block_delta":
                    text += event.delta.text
        assert text == "a"
        metrics.wait_running(server, 0)


def test_c25_silence_is_broken_by_pings_behind_message_start():
    """Case C25: the helper raises at anything in front of message_start."""
    line = {"out": "ab", "first_ms": 1500}
    with Server(script=[line], options=["--heartbeat", "100ms"]) as server:
        sdk = client(server)
        with sdk.messages.stream(
            model=MODEL, max_tokens=100, messages=SAY_HI, thinking=OFF
        ) as stream:
            message = stream.get_final_message()
        assert message.content[0].text == "ab"
        assert message.usage.input_tokens == PLAIN_FRAME + len("hi")
        assert metrics.value(server, "heartbeats_sent_total") >= 3


def test_closing_a_stream_cancels():
    with Server(script=[{"out": "x" * 100_000, "pace_ms": 1, "times": "always"}]) as server:
        stream = ask(client(server), stream=True)
        next(iter(stream))
        assert metrics.running(server) == 1
        stream.close()
        metrics.wait_running(server, 0)


def test_head_is_answered():
    """Agents ask for the root before anything else (spec http-api.md §1)."""
    with Server() as server:
        assert httpx2.head(f"http://127.0.0.1:{server.port}/").status_code == 200


def test_unknown_paths_have_the_callers_error_form():
    with Server() as server:
        base = f"http://127.0.0.1:{server.port}"
        ours = httpx2.get(base + "/v1/files", headers={"anthropic-version": "2023-06-01"})
        assert (ours.status_code, ours.json()["type"]) == (404, "error")
        assert ours.json()["error"]["type"] == "not_found_error"
        assert "code" in httpx2.get(base + "/v1/files").json()["error"]
