"""Turn memory over real sockets: an answer that a client sends back stands in the prompt as the tokens
that were sampled. What shows it is the count of the prompt: of the reasoning that the client
dropped, the spaces that it took out of arguments, words that the model spelled letter by letter.
"""

import json
from pathlib import Path

import anthropic
import httpx2
import openai
import pytest

from harness import metrics, raw_http
from harness.server import Server, wait_until

MODEL = "deepseek-flash"
FUNCTION = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}
REASONING, TEXT = "I had better look first.", "Looking."
CALL = (
    '\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">\n'
    '<｜DSML｜ parameter name="lines" string="false">[1,   2,\n3]</｜DSML｜ parameter>\n'
    "</｜DSML｜ invoke>\n</｜DSML｜ calls>"
)
LINE = {"out": REASONING + "</think>" + TEXT + CALL, "times": "always"}
# One token a byte, and the user's and the assistant's mark and that of thinking.
RESULT_TOKENS = 3 + len("<tool_result>done</tool_result>")
END_OF_SENTENCE = 1


def openai_client(server, key="anything"):
    return openai.OpenAI(
        base_url=f"http://127.0.0.1:{server.port}/v1",
        api_key=key,
        max_retries=0,
        timeout=30,
        http_client=httpx2.Client(trust_env=False),
    )


def anthropic_client(server):
    return anthropic.Anthropic(
        base_url=f"http://127.0.0.1:{server.port}",
        api_key="anything",
        max_retries=0,
        timeout=30,
        http_client=anthropic.DefaultHttpxClient(trust_env=False),
    )


def compact(arguments):
    return json.dumps(json.loads(arguments), separators=(",", ":"))


def turns(server, kind):
    return metrics.value(server, "history_turns_total", f'kind="{kind}"')


def chat(sdk, messages, **more):
    tools = [{"type": "function", "function": FUNCTION}]
    return sdk.chat.completions.create(model=MODEL, messages=messages, tools=tools, **more)


def chat_turn(sdk, messages, own_id):
    """Asks, and adds to `messages` what a client makes of it; the usage."""
    answer = chat(sdk, messages)
    message = answer.choices[0].message
    call = message.tool_calls[0]
    arguments = compact(call.function.arguments)
    function = {"name": call.function.name, "arguments": arguments}
    messages.append(
        {
            "role": "assistant",
            "content": message.content,
            "tool_calls": [{"id": own_id, "type": "function", "function": function}],
        }
    )
    messages.append({"role": "tool", "tool_call_id": own_id, "content": "done"})
    return answer.usage


def test_chat():
    with Server(script=[LINE]) as server:
        sdk = openai_client(server)
        messages = [{"role": "user", "content": "hi"}]
        usage = chat_turn(sdk, messages, "a")
        for i in range(3):
            after = chat_turn(sdk, messages, f"b{i}")
            sampled = usage.completion_tokens + END_OF_SENTENCE
            assert after.prompt_tokens == usage.prompt_tokens + sampled + RESULT_TOKENS
            usage = after
        assert (turns(server, "sampled"), turns(server, "rendered")) == (1 + 2 + 3, 0)
        wait_until(lambda: metrics.value(server, "turn_memory_bytes") > 0, 20, "the gauge")
        # Another word of the client's, and all of it is read as it comes.
        messages[1]["content"] += "!"
        before = usage.prompt_tokens
        usage = chat(sdk, messages).usage
        assert usage.prompt_tokens < before + usage.completion_tokens
        assert turns(server, "rendered") == 4


def test_messages_and_its_token_count():
    with Server(script=[LINE]) as server:
        sdk = anthropic_client(server)
        asked = {
            "model": MODEL,
            "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {}}}],
            "messages": [{"role": "user", "content": "hi"}],
        }
        with sdk.messages.stream(max_tokens=1000, **asked) as stream:
            answer = stream.get_final_message()
        content = [b.model_dump() for b in answer.content if b.type != "thinking"]
        assert [b["type"] for b in content] == ["text", "tool_use"]
        result = {"type": "tool_result", "tool_use_id": content[1]["id"], "content": "done"}
        asked["messages"] += [
            {"role": "assistant", "content": content},
            {"role": "user", "content": [result]},
        ]
        sampled = answer.usage.output_tokens + END_OF_SENTENCE
        wanted = answer.usage.input_tokens + sampled + RESULT_TOKENS
        assert sdk.messages.count_tokens(**asked).input_tokens == wanted
        assert sdk.messages.create(max_tokens=1000, **asked).usage.input_tokens == wanted


@pytest.mark.parametrize("reference", (True, False), ids=("previous_response_id", "items"))
def test_responses(reference):
    with Server(script=[LINE]) as server:
        sdk = openai_client(server)
        tools = [{"type": "function", "strict": False} | FUNCTION]
        asked = {"model": MODEL, "tools": tools}
        answer = sdk.responses.create(input="hi", **asked)
        call = answer.output[-1]
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "done"}
        if reference:
            after = sdk.responses.create(previous_response_id=answer.id, input=[result], **asked)
        else:
            items = [item.model_dump() for item in answer.output if item.type != "reasoning"]
            items[-1]["arguments"] = compact(items[-1]["arguments"])
            history = [{"role": "user", "content": "hi"}, *items, result]
            after = sdk.responses.create(input=history, **asked)
        sampled = answer.usage.output_tokens + END_OF_SENTENCE
        assert after.usage.input_tokens == answer.usage.input_tokens + sampled + RESULT_TOKENS


def spelled(text):
    """Each character as a token of its own, in the built-in vocabulary; control tokens as they are."""
    folder = Path(__file__).resolve().parents[1] / "golden" / "tokenizer"
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    added = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    ids, at = [], 0
    while at < len(text):
        control = next((c for c in ("</think>", "｜DSML｜") if text.startswith(c, at)), None)
        shown = {" ": "Ġ", "\n": "Ċ"}.get(text[at], text[at])
        ids.append(added[control] if control else vocabulary[shown])
        at += len(control or " ")
    return ids


def test_words_that_were_sampled_letter_by_letter():
    ids = spelled(LINE["out"])
    counts = {}
    for memory in ("64MiB", "0B"):
        script = [{"ids": ids, "times": "always"}]
        options = ["--turn-memory", memory]
        with Server(script=script, options=options, own_tokenizer=False) as server:
            sdk = openai_client(server)
            messages = [{"role": "user", "content": "hi"}]
            first = chat_turn(sdk, messages, "a")
            assert first.completion_tokens == len(ids)
            messages[1]["reasoning_content"] = REASONING
            counts[memory] = chat(sdk, messages).usage.prompt_tokens - first.prompt_tokens
            assert turns(server, "sampled") == (1 if memory != "0B" else 0)
    # All the same but for the tokens of the one turn, which an encoder would have made fewer.
    assert counts["64MiB"] - counts["0B"] > len(ids) / 4
    assert counts["64MiB"] > len(ids)


def test_another_key_finds_nothing(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("same sk-ann-0001\nsame sk-bob-0002\n", encoding="utf-8")
    with Server(script=[LINE], options=["--api-keys-file", keys]) as server:
        ann, bob = (openai_client(server, key) for key in ("sk-ann-0001", "sk-bob-0002"))
        messages = [{"role": "user", "content": "hi"}]
        chat_turn(ann, messages, "a")
        of_bob = chat(bob, messages).usage.prompt_tokens
        assert (turns(server, "sampled"), turns(server, "rendered")) == (0, 1)
        of_ann = chat(ann, messages).usage.prompt_tokens
        assert (turns(server, "sampled"), turns(server, "rendered")) == (1, 1)
        assert of_ann > of_bob + len(REASONING)


def test_a_client_that_goes_away_leaves_nothing():
    with Server(script=[LINE | {"hang_after": 60}]) as server:
        tools = [{"type": "function", "function": FUNCTION}]

        def held():
            return metrics.value(server, "turn_memory_bytes")

        with raw_http.Connection(server.port) as connection:
            connection.send(raw_http.chat_request(stream=True, tools=tools))
            wait_until(lambda: held() > 0, 20, "an answer is collected")
        metrics.wait_running(server, 0)
        wait_until(lambda: held() == 0, 20, "it is let go")
