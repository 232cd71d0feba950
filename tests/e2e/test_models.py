"""What the engine promises, over a real socket, on a model of each family.

A request's tokens depend on the request alone: not on who else asks, how prompts are cut, what the cache holds, how much memory
there is, or how many threads compute. SmolLM2 takes part where it was fetched (`sluice pull smollm2-135m`).
"""

import json
import random
import threading

import pytest

from harness import metrics
from harness.models import SMOLLM2, TINY_A, need
from harness.raw_http import Connection, chat_request, once, request_bytes
from harness.server import Server, run_cli, wait_until

OFF = {"thinking": {"type": "disabled"}}
OPTIONS = ["--context", "512", "--strict-determinism"]
# Few at once, prompts in small pieces, memory for one long answer and a bit.
CROWDED = [*OPTIONS, "--max-running", "3", "--prefill-chunk", "7", "--threads", "2"]
ALONE = [*OPTIONS, "--max-running", "1", "--prefill-chunk", "64", "--threads", "1", "--no-prefix-cache"]

STORY = "Once upon a time there was a lighthouse keeper who wrote down the weather every morning. "


def ready(server):
    return once(server.port, request_bytes("GET", "/ready")).status == 200


def serve(model, options):
    return Server(model=model.path, own_tokenizer=not model.has_tokenizer, options=options)


@pytest.fixture(scope="module", params=[TINY_A, SMOLLM2], ids=lambda model: model.name)
def model(request):
    return need(request.param)


@pytest.fixture(scope="module")
def crowded(model):
    with serve(model, CROWDED) as server:
        wait_until(lambda: ready(server), 60, "the model")
        yield server


@pytest.fixture(scope="module")
def alone(model):
    with serve(model, ALONE) as server:
        wait_until(lambda: ready(server), 60, "the model")
        yield server


def post(server, path, body):
    data = json.dumps({"model": "deepseek-flash"} | body).encode()
    headers = [("content-type", "application/json")]
    response = once(server.port, request_bytes("POST", path, headers, data))
    assert response.status == 200, response.body
    return json.loads(response.body)


def chat(server, content, **more):
    body = {"messages": [{"role": "user", "content": content}], **OFF} | more
    return post(server, "/v1/chat/completions", body)


def outcome(body):
    """What of an answer must be the same wherever it was computed."""
    choices = [(c["message"]["content"], c["finish_reason"], c["logprobs"]) for c in body["choices"]]
    return choices, body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"]


def random_request(rng):
    """Prompts in families, so that they share beginnings; every way of sampling."""
    content = STORY * rng.randint(0, 2) + rng.choice(["Who was he?", "And then", "Count: 1 2 3", "é 漢字 🙂", "x" * 40])
    more = {"max_tokens": rng.randint(1, 14), "seed": rng.randint(0, 99), "logprobs": rng.random() < 0.5}
    if rng.random() < 0.4:
        more["temperature"] = 0
    else:
        more |= {"temperature": rng.choice([0.7, 1.0, 1.5]), "top_p": rng.choice([1.0, 0.9, 0.3])}
    if rng.random() < 0.3:
        more["stop"] = [rng.choice(["a", "e", " the", "\n"])]
    if rng.random() < 0.3:
        more["presence_penalty"] = 1.5
    if rng.random() < 0.2:
        more["n"] = 2
    return content, more


def test_an_answer_is_that_of_its_request_alone(crowded, alone, seed):
    rng = random.Random(seed)
    requests = [random_request(rng) for _ in range(16)]
    got = [None] * len(requests)

    def ask(i):
        content, more = requests[i]
        got[i] = outcome(chat(crowded, content, **more))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(requests))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for (content, more), answer in zip(requests, got):
        assert answer == outcome(chat(alone, content, **more)), (content, more)
    assert metrics.value(crowded, "prefix_cache_hits_total") > 0
    wait_until(lambda: metrics.value(crowded, "kv_blocks_in_use") == 0, 20, "blocks are given back")


def test_every_api_answers_the_same(crowded):
    asked = {"messages": [{"role": "user", "content": "Say something."}], "max_tokens": 12, "temperature": 0, **OFF}
    of_chat = post(crowded, "/v1/chat/completions", asked)
    of_messages = post(crowded, "/v1/messages", asked)
    of_responses = post(
        crowded,
        "/v1/responses",
        {"input": "Say something.", "max_output_tokens": 12, "temperature": 0, "reasoning": {"effort": "none"}},
    )
    texts = {
        of_chat["choices"][0]["message"]["content"],
        "".join(part["text"] for part in of_messages["content"]),
        "".join(part["text"] for item in of_responses["output"] for part in item["content"]),
    }
    assert len(texts) == 1, texts


def test_a_prompt_is_computed_once_and_a_longer_one_from_where_they_part(crowded):
    content = STORY * 3
    first = chat(crowded, content, max_tokens=4, temperature=0)
    again = chat(crowded, content, max_tokens=4, temperature=0)
    n_prompt = again["usage"]["prompt_tokens"]
    assert outcome(again) == outcome(first)
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] in (n_prompt - 1, n_prompt - 2)
    longer = chat(crowded, content + "What did he write?", max_tokens=1)
    assert longer["usage"]["prompt_tokens_details"]["cached_tokens"] >= n_prompt - 16


def test_choices_share_their_prompt_and_differ(crowded):
    content = STORY + "This is asked twice at once."
    before = metrics.value(crowded, "forks_total")
    body = chat(crowded, content, n=3, seed=5, max_tokens=8, temperature=1.5)
    texts = [choice["message"]["content"] for choice in body["choices"]]
    assert len(set(texts)) > 1
    assert metrics.value(crowded, "forks_total") - before == 2
    again = chat(crowded, content, n=3, seed=5, max_tokens=8, temperature=1.5)
    assert [choice["message"]["content"] for choice in again["choices"]] == texts


def test_a_cancelled_answer_holds_nothing(crowded):
    with Connection(crowded.port) as client:
        client.send(chat_request(STORY, stream=True, max_tokens=400, ignore_eos=True, **OFF))
        assert client.read_head().status == 200
        metrics.wait_running(crowded, 1, seconds=10)
    metrics.wait_running(crowded, 0)
    wait_until(lambda: metrics.value(crowded, "kv_blocks_in_use") == 0, 20, "blocks are given back")


def test_a_file_of_requests_is_answered_as_by_the_server(model, alone, tmp_path):
    bodies = [
        {"model": "deepseek-flash", "messages": [{"role": "user", "content": STORY * (i % 3) + f"{i}?"}],
         "max_tokens": 6, "temperature": 0, "seed": i, **OFF}
        for i in range(6)
    ]  # fmt: skip
    rows = [
        {"custom_id": str(i), "method": "POST", "url": "/v1/chat/completions", "body": body}
        for i, body in enumerate(bodies)
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = [str(model.path), str(tmp_path / "in.jsonl"), str(tmp_path / "out.jsonl"), *OPTIONS]
    if not model.has_tokenizer:
        arguments += ["--tokenizer", alone.arguments[alone.arguments.index("--tokenizer") + 1]]
    done = run_cli("batch", *arguments, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    by_id = {line["custom_id"]: line["response"]["body"] for line in lines}
    for i, body in enumerate(bodies):
        assert outcome(by_id[str(i)]) == outcome(post(alone, "/v1/chat/completions", body))


def test_smollm2_knows_the_capital_of_france():
    with serve(need(SMOLLM2), OPTIONS) as server:
        wait_until(lambda: ready(server), 60, "the model")
        body = chat(server, "What is the capital of France?", max_tokens=24, temperature=0)
        assert "Paris" in body["choices"][0]["message"]["content"]
        assert body["usage"]["prompt_tokens"] == 37  # with the system turn that the model was trained on
