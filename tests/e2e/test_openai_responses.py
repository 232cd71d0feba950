"""The official OpenAI SDK's Responses API against a real socket: whole answers, streams, history by
reference, stored responses and the exceptions it raises.
"""

import httpx2
import openai
import pytest

from harness import scan
from harness.byte_tokenizer import FRAME
from harness.server import Server

MODEL = "deepseek-flash"
OFF = {"effort": "none"}


def _scan(response):
    if "event-stream" not in response.headers.get("content-type", ""):
        scan.check(response.read())


def client(server, key="anything", retries=0):
    http = httpx2.Client(event_hooks={"response": [_scan]}, trust_env=False)
    return openai.OpenAI(
        base_url=f"http://127.0.0.1:{server.port}/v1",
        api_key=key,
        max_retries=retries,
        timeout=30,
        http_client=http,
    )


def ask(sdk, **more):
    return sdk.responses.create(**({"model": MODEL, "input": "hi"} | more))


def test_whole_answer():
    with Server(script=["so\n</think>Hello"]) as server:
        answer = ask(client(server))
        assert answer.output_text == "Hello"
        assert answer.status == "completed" and answer.error is None
        assert [item.type for item in answer.output] == ["reasoning", "message"]
        assert answer.output[0].content[0].text == "so"
        assert answer.model == MODEL and answer.id.startswith("resp_")
        assert answer.usage.input_tokens == FRAME + len("hi")
        assert answer.usage.output_tokens == len("so\n") + 1 + len("Hello")
        assert answer.usage.total_tokens == FRAME + 2 + answer.usage.output_tokens
        assert answer.usage.output_tokens_details.reasoning_tokens == 2
        assert answer.store is False and answer.previous_response_id is None
        assert answer._request_id


def test_stream():
    with Server(script=["so\n</think>Hello"]) as server:
        events = list(ask(client(server), stream=True))
        assert [e.sequence_number for e in events] == list(range(len(events)))
        types = [e.type for e in events]
        assert types[:2] == ["response.created", "response.in_progress"]
        assert types[-1] == "response.completed"
        assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == "Hello"
        assert "".join(e.delta for e in events if e.type == "response.reasoning_text.delta") == "so"
        assert events[-1].response.output_text == "Hello"


def test_the_stream_helper_puts_the_answer_together():
    with Server(script=["so\n</think>Hello"]) as server:
        with client(server).responses.stream(model=MODEL, input="hi") as stream:
            text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
            final = stream.get_final_response()
        assert text == final.output_text == "Hello"


def test_c18_an_item_is_the_same_everywhere():
    """C18: ids differed between output_item.done and the final response."""
    with Server(script=["so\n</think>Hello"]) as server:
        sdk = client(server)
        events = list(ask(sdk, stream=True))
        final = events[-1].response
        done = [e.item for e in events if e.type == "response.output_item.done"]
        assert [i.to_dict() for i in done] == [i.to_dict() for i in final.output]
        added = [e.item.id for e in events if e.type == "response.output_item.added"]
        assert added == [i.id for i in final.output] and len(set(added)) == 2
        mentioned = {e.item_id for e in events if hasattr(e, "item_id")}
        assert mentioned == set(added)
        kept = sdk.responses.retrieve(final.id)
        assert [i.to_dict() for i in kept.output] == [i.to_dict() for i in final.output]


def test_cut_at_the_limit():
    with Server(script=["</think>Hello"]) as server:
        answer = ask(client(server), max_output_tokens=4)
        assert answer.status == "incomplete"
        assert answer.incomplete_details.reason == "max_output_tokens"
        assert answer.output_text == "Hel" and answer.output[0].status == "incomplete"


def test_logprobs_come_with_the_text():
    with Server(script=[{"out": "</think>ab", "logprob": -0.5}]) as server:
        answer = ask(client(server), top_logprobs=2)
        entries = answer.output[0].content[0].logprobs
        assert [(e.token, e.logprob, e.bytes) for e in entries] == [
            ("a", -0.5, [97]),
            ("b", -0.5, [98]),
        ]
        assert all(len(e.top_logprobs) == 2 for e in entries)


SECOND = {"when": {"prompt": "first answer", "last": "and then"}, "out": "thought</think>second"}


def test_previous_response_id():
    with Server(script=["so</think>first answer", SECOND]) as server:
        sdk = client(server)
        first = ask(sdk, instructions="never again", input="begin")
        second = ask(sdk, previous_response_id=first.id, input="and then")
        assert second.output_text == "second"
        assert second.previous_response_id == first.id
        # Its instructions do not come along; without tools the prompt has no reasoning: an assistant's turn is
        # framed by three control tokens, and the user's by one more.
        assert second.usage.input_tokens == FRAME + len("beginfirst answerand then") + 4
        items = list(sdk.responses.input_items.list(second.id, order="asc"))
        assert [item.type for item in items] == ["message", "reasoning", "message", "message"]
        assert items[2].content[0].text == "first answer"
        assert items[-1].content[0].text == "and then"


def test_previous_response_of_a_stream():
    with Server(script=["so</think>first answer", SECOND]) as server:
        sdk = client(server)
        first = list(ask(sdk, stream=True))[-1].response
        events = list(ask(sdk, previous_response_id=first.id, input="and then", stream=True))
        assert events[0].response.previous_response_id == first.id
        assert events[-1].response.output_text == "second"


def test_item_references():
    """What the Vercel AI SDK sends in place of earlier output, unless its user sets store: false."""
    with Server(script=["so</think>first answer", SECOND]) as server:
        sdk = client(server)
        first = ask(sdk)
        references = [{"type": "item_reference", "id": item.id} for item in first.output]
        history = [{"role": "user", "content": "hi"}, *references]
        answer = ask(sdk, input=[*history, {"role": "user", "content": "and then"}])
        assert answer.output_text == "second"


def test_unknown_history_is_refused_not_lost():
    with Server(script=["</think>a"]) as server:
        sdk = client(server)
        with pytest.raises(openai.BadRequestError) as caught:
            ask(sdk, previous_response_id="resp_gone")
        assert caught.value.code == "previous_response_not_found"
        assert caught.value.param == "previous_response_id"
        assert "resp_gone" in caught.value.message
        with pytest.raises(openai.NotFoundError) as caught:
            ask(sdk, input=[{"type": "item_reference", "id": "rs_resp_gone_0"}])
        assert (caught.value.code, caught.value.param) == ("item_not_found", "input")
        assert "rs_resp_gone_0" in caught.value.message
        for field, value in (("background", True), ("conversation", "conv_1")):
            with pytest.raises(openai.BadRequestError) as caught:
                ask(sdk, **{field: value})
            assert (caught.value.code, caught.value.param) == ("unsupported_parameter", field)


def test_store_is_answered_truthfully():
    with Server(script=["</think>a", "</think>b", "</think>c"]) as server:
        sdk = client(server)
        asked, silent, declined = (ask(sdk, store=True), ask(sdk), ask(sdk, store=False))
        assert (asked.store, silent.store, declined.store) == (True, False, False)
        assert sdk.responses.retrieve(asked.id).output_text == "a"
        assert sdk.responses.retrieve(silent.id).output_text == "b"
        with pytest.raises(openai.NotFoundError):
            sdk.responses.retrieve(declined.id)
        with pytest.raises(openai.BadRequestError):
            ask(sdk, previous_response_id=declined.id)


def test_retrieve_delete_and_cancel():
    with Server(script=["so</think>Hello"]) as server:
        sdk = client(server)
        made = ask(sdk, instructions="be brief", store=True)
        kept = sdk.responses.retrieve(made.id)
        assert kept.to_dict() == made.to_dict()
        with pytest.raises(openai.BadRequestError) as caught:
            sdk.responses.cancel(made.id)
        assert "synchronous" in caught.value.message
        sdk.responses.delete(made.id)
        for call in (sdk.responses.retrieve, sdk.responses.delete, sdk.responses.cancel):
            with pytest.raises(openai.NotFoundError) as caught:
                call(made.id)
            assert made.id in caught.value.message
        with pytest.raises(openai.NotFoundError):
            sdk.responses.input_items.list(made.id)
        with pytest.raises(openai.BadRequestError):
            ask(sdk, previous_response_id=made.id)


def test_input_items_come_in_pages():
    with Server(script=["</think>a"]) as server:
        sdk = client(server)
        said = [{"role": "user", "content": f"line {i}"} for i in range(45)]
        made = ask(sdk, input=said)
        newest_first = list(sdk.responses.input_items.list(made.id))
        assert [i.content for i in newest_first] == [f"line {i}" for i in reversed(range(45))]
        assert len({i.id for i in newest_first}) == 45
        page = sdk.responses.input_items.list(made.id, limit=7, order="asc")
        assert [i.content for i in page.data] == [f"line {i}" for i in range(7)] and page.has_more


def test_the_responses_of_one_key_do_not_exist_for_another(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("ann key-of-ann-99\nann second-of-ann-97\nbob key-of-bob-98\n")
    options = ["--api-keys-file", keys]
    script = [{"out": "so</think>secret", "times": "always"}]
    with Server(script=script, options=options) as server:
        ann = client(server, key="key-of-ann-99")
        made = ask(ann, store=True)
        assert ann.responses.retrieve(made.id).output_text == "secret"
        for other in (client(server, key="key-of-bob-98"), client(server, key="second-of-ann-97")):
            for call in (
                other.responses.retrieve,
                other.responses.delete,
                other.responses.cancel,
                other.responses.input_items.list,
            ):
                with pytest.raises(openai.NotFoundError) as caught:
                    call(made.id)
                assert "secret" not in caught.value.message
            with pytest.raises(openai.BadRequestError) as refused:
                ask(other, previous_response_id=made.id)
            assert refused.value.code == "previous_response_not_found"
            with pytest.raises(openai.NotFoundError):
                ask(other, input=[{"type": "item_reference", "id": made.output[0].id}])
        assert ann.responses.retrieve(made.id).output_text == "secret"


def test_old_responses_make_room():
    options = ["--max-stored-responses", "2"]
    with Server(script=[{"out": "</think>a", "times": "always"}], options=options) as server:
        sdk = client(server)
        made = [ask(sdk, store=True) for _ in range(3)]
        assert all(answer.store for answer in made)
        with pytest.raises(openai.NotFoundError):
            sdk.responses.retrieve(made[0].id)
        assert [sdk.responses.retrieve(a.id).id for a in made[1:]] == [a.id for a in made[1:]]


def test_nothing_is_kept_where_nothing_may_be():
    options = ["--max-stored-responses", "0"]
    with Server(script=[{"out": "</think>a", "times": "always"}], options=options) as server:
        sdk = client(server)
        made = ask(sdk, store=True)
        assert made.store is False
        with pytest.raises(openai.NotFoundError):
            sdk.responses.retrieve(made.id)


@pytest.mark.parametrize("fault", ["fail_after", "sick_after"])
def test_engine_failure(fault):
    with Server(script=[{"out": "</think>abc", fault: 2, "times": "always"}]) as server:
        sdk = client(server)
        with pytest.raises(openai.InternalServerError) as caught:
            ask(sdk)
        assert caught.value.status_code == 500
        events = list(ask(sdk, stream=True))
        failed = events[-1]
        assert failed.type == "response.failed" and failed.response.status == "failed"
        assert failed.response.error.code == "server_error"
        assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == "a"
        with pytest.raises(openai.NotFoundError):
            sdk.responses.retrieve(failed.response.id)


def test_bad_requests():
    with Server() as server:
        sdk = client(server)
        with pytest.raises(openai.BadRequestError) as caught:
            ask(sdk, temperature=3)
        assert "[0, 2]" in caught.value.message
        with pytest.raises(openai.NotFoundError) as caught:
            ask(sdk, model="gpt-9")
        assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


def test_context_overflow_names_the_limit():
    with Server(script=[{"refuse": "context"}]) as server:
        with pytest.raises(openai.BadRequestError) as caught:
            ask(client(server))
        assert caught.value.code == "context_length_exceeded"


def test_rate_limit_and_overload():
    with Server(script=[{"refuse": "rate_limit"}, {"refuse": "overloaded"}]) as server:
        sdk = client(server)
        with pytest.raises(openai.RateLimitError):
            ask(sdk)
        with pytest.raises(openai.InternalServerError) as caught:
            ask(sdk, stream=True)
        assert caught.value.status_code == 503


def test_no_or_wrong_key():
    with Server(script=["</think>a"], options=["--api-key", "right-key-3141"]) as server:
        wrong = client(server, key="wrong-key-2718")
        with pytest.raises(openai.AuthenticationError):
            ask(wrong)
        with pytest.raises(openai.AuthenticationError):
            wrong.responses.retrieve("resp_1")
        assert ask(client(server, key="right-key-3141")).output_text == "a"


def test_c14_everything_a_coding_agent_sends_is_accepted():
    """C14: instructions and developer items between user turns; fields, tools and items of Codex."""
    request = {
        "instructions": "You are a coding agent.",
        "input": [
            {"type": "message", "id": "m1", "role": "developer",
             "content": [{"type": "input_text", "text": "sandbox"}]},
            {"type": "message", "id": "m2", "role": "user",
             "content": [{"type": "input_text", "text": "go"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None,
             "content": [{"type": "reasoning_text", "text": "look"}]},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "shell",
             "arguments": "{\"cmd\":[\"ls\"]}"},
            {"type": "function_call_output", "id": "fco_1", "call_id": "c1", "output": "a.py"},
            {"type": "message", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": "a.py", "annotations": [], "logprobs": []}]},
            {"type": "message", "role": "developer", "content": "mode changed"},
            {"type": "message", "role": "user", "content": "go on"},
        ],
        "tools": [
            {"type": "function", "name": "shell", "strict": False,
             "parameters": {"type": "object", "properties": {"cmd": {"type": "array"}}}},
            {"type": "namespace", "name": "git", "description": "Git.",
             "tools": [{"type": "function", "name": "log", "parameters": {"type": "object"}}]},
            {"type": "web_search", "external_web_access": False},
            {"type": "custom", "name": "apply_patch",
             "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}},
        ],
        "tool_choice": "auto", "parallel_tool_calls": False, "reasoning": {"summary": "auto"},
        "store": False, "include": ["reasoning.encrypted_content"], "prompt_cache_key": "thread-1",
        "extra_body": {"client_metadata": {"a": "b"}, "access_programs": []},
    }  # fmt: skip
    with Server(script=["so</think>Done."]) as server:
        raw = client(server).responses.with_raw_response.create(model=MODEL, **request)
        answer = raw.parse()
        assert answer.output_text == "Done." and answer.parallel_tool_calls is False
        ignored = raw.headers["x-sluice-ignored-fields"].split(", ")
        assert "access_programs" in ignored and "tools[2]" in ignored
        assert "client_metadata" not in ignored
