"""Completions through the official OpenAI SDK."""

import openai
import pytest
from e2e.test_openai_sdk import MODEL, client

from harness.server import Server


def ask(sdk, **more):
    return sdk.completions.create(**{"model": MODEL, "prompt": "once"} | more)


def test_whole_answer():
    with Server(script=["thoughts</think>\n upon"]) as server:
        answer = ask(client(server))
        assert answer.object == "text_completion"
        assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("\n upon", "stop")
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (5, 6)


def test_stream_with_usage():
    with Server(script=["upon"]) as server:
        chunks = list(
            ask(client(server), stream=True, stream_options={"include_usage": True}, echo=True)
        )
        assert "".join(c.choices[0].text for c in chunks[:-1]) == "onceupon"
        assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 4
        assert all(c.usage is None for c in chunks[:-1])


def test_several_choices_and_logprobs():
    with Server(script=[{"out": "ab", "logprob": -0.5}]) as server:
        answer = ask(client(server), n=2, logprobs=2)
        assert [c.text for c in answer.choices] == ["ab", "ab"]
        logprobs = answer.choices[1].logprobs
        assert (logprobs.tokens, logprobs.token_logprobs) == (["a", "b"], [-0.5, -0.5])
        assert logprobs.text_offset == [0, 1]
        assert all(len(top) == 2 for top in logprobs.top_logprobs)


def test_two_prompts_are_refused():
    with Server() as server:
        with pytest.raises(openai.BadRequestError) as caught:
            ask(client(server), prompt=["a", "b"])
        assert caught.value.param == "prompt"


def test_an_echo_with_logprobs_scores_the_prompt():
    with Server(script=["cd", "cd"]) as server:
        asked = {"prompt": [97, 98, 99], "echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
        whole = ask(client(server), **asked)
        assert (whole.choices[0].text, whole.choices[0].finish_reason) == ("abcc", "length")
        logprobs = whole.choices[0].logprobs
        assert logprobs.tokens == ["a", "b", "c", "c"]
        assert logprobs.token_logprobs == [None, -0.125, -0.25, -0.25]
        assert logprobs.top_logprobs[:2] == [None, {"b": -0.125}]
        assert logprobs.text_offset == [0, 1, 2, 3]
        assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (3, 1)

        chunks = list(ask(client(server), stream=True, **asked))
        assert "".join(c.choices[0].text for c in chunks) == "abcc"
        streamed = [c.choices[0].logprobs for c in chunks if c.choices[0].logprobs]
        assert sum((part.tokens for part in streamed), []) == logprobs.tokens
        assert sum((part.token_logprobs for part in streamed), []) == logprobs.token_logprobs


def test_scores_alone():
    with Server(script=["cd"]) as server:
        answer = ask(client(server), prompt="ab", echo=True, logprobs=0, max_tokens=0)
        assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("ab", "length")
        assert answer.choices[0].logprobs.token_logprobs == [None, -0.125]
        assert answer.usage.completion_tokens == 0


def test_prompt_logprobs_are_an_extra_field_of_the_choice():
    with Server(script=["cd"]) as server:
        answer = ask(client(server), prompt="a", max_tokens=1, extra_body={"prompt_logprobs": 0})
        listed = answer.choices[0].model_extra["prompt_logprobs"]
        assert listed == [None, {"97": {"logprob": -0.875, "rank": 1, "decoded_token": "a"}}]
