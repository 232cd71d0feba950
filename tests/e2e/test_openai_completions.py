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
