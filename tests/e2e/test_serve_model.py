"""`sluice serve MODEL`: answers of a model over HTTP, and folders that cannot be served."""

import json
import math
import shutil
import struct
import threading

import pytest

from harness.byte_tokenizer import PLAIN_FRAME, control, plain_prompt, spoken
from harness.raw_http import chat_request, once, request_bytes
from harness.server import REPOSITORY, Server, run_cli, wait_until

TINY = REPOSITORY / "tests/golden/tiny-a"
N_TOKENS = json.loads((TINY / "config.json").read_text())["text_config"]["vocab_size"]
OFF = {"thinking": {"type": "disabled"}}
# Fewer at once than ask, prompts in pieces; one thread, because many tests share the machine.
OPTIONS = ["--max-running", "3", "--prefill-chunk", "5", "--threads", "1", "--strict-determinism"]
# Every token may be sampled and every layer sees the whole prompt, as by `sluice generate`.
SHOW = ["--stray-specials", "show", "--prefill", "full"]


def ready(server):
    return once(server.port, request_bytes("GET", "/ready")).status == 200


@pytest.fixture(scope="module")
def server():
    with Server(model=TINY, options=OPTIONS) as running:
        wait_until(lambda: ready(running), 30, "the model")
        yield running


@pytest.fixture(scope="module")
def showing_server():
    with Server(model=TINY, options=OPTIONS + SHOW) as running:
        wait_until(lambda: ready(running), 30, "the model")
        yield running


@pytest.fixture
def folder(tmp_path):
    """A copy of the model that a test may spoil."""
    copy = tmp_path / "model"
    shutil.copytree(TINY, copy)
    return copy


def generated(tmp_path, prompt, n):
    """What the model says after a prompt without a server, and in how many tokens."""
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps(plain_prompt(prompt)))
    options = ["--tokens", str(tokens), "--max-tokens", str(n), "--threads", "1"]
    done = run_cli("generate", str(TINY), *options)
    assert done.returncode == 0, done.stderr
    ids = json.loads(done.stdout)
    return spoken(ids, N_TOKENS).lstrip("\n"), len(ids)  # line feeds at the begin are dropped


def answer(server, prompt, n, **more):
    request = chat_request(prompt, max_tokens=n, temperature=0, **OFF, **more)
    response = once(server.port, request)
    assert response.status == 200, response.body
    return json.loads(response.body)


def test_answers_are_those_of_the_model_whoever_else_asks(showing_server, tmp_path):
    prompts = ["Hello", "a", "A prompt that is longer than one piece of it. " * 2, "7"]
    wanted = [generated(tmp_path, prompt, 12) for prompt in prompts]
    got = [None] * len(prompts)

    def ask(i):
        got[i] = answer(showing_server, prompts[i], 12)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for (text, n_tokens), body, prompt in zip(wanted, got, prompts):
        assert body["choices"][0]["message"]["content"] == text
        assert body["usage"]["completion_tokens"] == n_tokens
        assert body["usage"]["prompt_tokens"] == PLAIN_FRAME + len(prompt)
        assert body["choices"][0]["finish_reason"] == "length"


def through_every_api(server, prompt, n):
    """The text and the usage of a greedy answer, by API."""

    def post(path, body):
        data = json.dumps({"model": "deepseek-flash", "temperature": 0, "top_p": 1} | body).encode()
        headers = [("content-type", "application/json")]
        response = once(server.port, request_bytes("POST", path, headers, data))
        assert response.status == 200, response.body
        return json.loads(response.body)

    messages = {"messages": [{"role": "user", "content": prompt}], "max_tokens": n}
    chat = post("/v1/chat/completions", messages | OFF)
    anthropic = post("/v1/messages", messages | OFF)
    responses = post(
        "/v1/responses", {"input": prompt, "max_output_tokens": n, "reasoning": {"effort": "none"}}
    )
    usage = chat["usage"], anthropic["usage"], responses["usage"]
    return {
        "chat": (chat["choices"][0]["message"]["content"], usage[0]["completion_tokens"]),
        "messages": ("".join(x["text"] for x in anthropic["content"]), usage[1]["output_tokens"]),
        "responses": (
            "".join(x["text"] for item in responses["output"] for x in item["content"]),
            usage[2]["output_tokens"],
        ),
    }


def test_every_api_answers_the_same(server):
    answers = through_every_api(server, "Say something.", 12)
    assert len(set(answers.values())) == 1, answers


@pytest.mark.slow
def test_mini_b_answers_through_every_api_with_its_own_tokenizer(tmp_path):
    model = tmp_path / "mini-b"
    tokenizer = REPOSITORY / "build/tokenizer.json"
    options = ["--out", str(model), "--tokenizer", str(tokenizer)]
    done = run_cli("make-model", "mini-b", *options, timeout=300)
    assert done.returncode == 0, done.stderr
    options = ["--context", "2048", "--max-running", "3", "--strict-determinism"]
    with Server(model=model, own_tokenizer=False, options=options) as running:
        wait_until(lambda: ready(running), 120, "the model")
        answers = through_every_api(running, "Say something.", 12)
        assert len(set(answers.values())) == 1 and answers["chat"][1] == 12, answers


def test_stray_control_tokens_are_not_sampled_unless_they_are_shown(server, showing_server):
    stray = "<｜User｜>"
    bias = {str(control(stray)): 100, str(ord("b")): 60}
    for running, text in ((server, "bbb"), (showing_server, 3 * stray)):
        assert answer(running, "x", 3, logit_bias=bias)["choices"][0]["message"]["content"] == text


def test_no_token_left_ends_that_request_alone(server):
    stops = {"stop_token_ids": list(range(N_TOKENS)), "min_tokens": 1}
    response = once(server.port, chat_request("x", max_tokens=3, **OFF, **stops))
    assert response.status == 400 and b"min_tokens" in response.body
    assert answer(server, "x", 1)["usage"]["completion_tokens"] == 1


def test_choices_of_one_seed_differ_and_come_again(server):
    def texts():
        request = chat_request("x", n=3, seed=5, max_tokens=8, logprobs=True, **OFF)
        body = json.loads(once(server.port, request).body)
        return [choice["logprobs"]["content"] for choice in body["choices"]]

    first = texts()
    assert first[0] != first[1] != first[2]
    assert texts() == first


def test_the_context_is_that_of_the_model(server):
    models = json.loads(once(server.port, request_bytes("GET", "/v1/models")).body)
    config = json.loads((TINY / "config.json").read_text())
    n_context = config["text_config"]["max_position_embeddings"]
    assert models["data"][0]["context_length"] == n_context
    assert f"{n_context} tokens" in server.stdout()
    response = once(server.port, chat_request("x" * (n_context + 1)))
    assert response.status == 400 and b"context" in response.body


def test_usage_tells_what_was_cached(server):
    prompt = "A conversation that goes on, and says so at some length. " * 4

    def usage():
        return answer(server, prompt, 4)["usage"]

    first, second = usage(), usage()
    n_prompt = first["prompt_tokens"]
    assert first["prompt_tokens_details"]["cached_tokens"] < PLAIN_FRAME + 2
    assert second["prompt_tokens_details"]["cached_tokens"] in (n_prompt - 1, n_prompt - 2)
    assert second["completion_tokens"] == first["completion_tokens"]


def scores_by_logits(tmp_path, ids):
    """Log probabilities of all tokens but the first, and whether each is the likeliest, by `sluice logits`."""
    tokens, out = tmp_path / "tokens.json", tmp_path / "logits.safetensors"
    tokens.write_text(json.dumps(ids))
    options = ["--tokens", str(tokens), "--out", str(out), "--threads", "1"]
    done = run_cli("logits", str(TINY), *options)
    assert done.returncode == 0, done.stderr
    data = out.read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    scores = []
    for i, token in enumerate(ids[1:]):
        row = struct.unpack_from(f"<{N_TOKENS}f", data, begin + i * N_TOKENS * 4)
        top = max(row)
        scores.append((row[token] - top - math.log(sum(math.exp(x - top) for x in row)), row[token] == top))
    return scores


def completion(server, **fields):
    body = json.dumps({"model": "deepseek-flash", "temperature": 0} | fields).encode()
    response = once(server.port, request_bytes("POST", "/v1/completions", [], body))
    assert response.status == 200, response.body
    return json.loads(response.body)


def test_scores_are_those_of_the_model_whatever_the_cache_holds_and_the_prefill(server, tmp_path):
    # Longer than a window, a block and a piece; a third of it was computed before, compactly.
    ids = [control("<｜begin▁of▁sentence｜>"), *("A prompt that is scored. " * 5).encode()]
    wanted = scores_by_logits(tmp_path, ids)
    completion(server, prompt=ids[: len(ids) // 3], max_tokens=1)
    asked = {"prompt": [ids], "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True}
    first, again = completion(server, **asked), completion(server, **asked)
    assert first["choices"] == again["choices"]
    logprobs = first["choices"][0]["logprobs"]
    assert logprobs["token_logprobs"][0] is None and logprobs["top_logprobs"][0] is None
    # What lm-eval's `local-completions` reads: all but the context and the one generated token.
    n_context = 7
    got = logprobs["token_logprobs"][n_context:-1]
    assert len(got) == len(ids) - n_context
    # Float32 of values below 64: a rounding of each logit and one of the result.
    assert got == pytest.approx([score for score, _ in wanted[n_context - 1 :]], abs=2e-5)
    is_best = [x == max(top.values()) for x, top in zip(got, logprobs["top_logprobs"][n_context:-1])]
    assert is_best == [best for _, best in wanted[n_context - 1 :]]
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


def test_scores_alone_are_the_same(server, tmp_path):
    ids = list(b"Some words, and nothing behind them.")
    wanted = scores_by_logits(tmp_path, ids)
    body = completion(server, prompt=ids, max_tokens=0, prompt_logprobs=3, n=2)
    assert body["usage"]["completion_tokens"] == 0
    for choice in body["choices"]:
        assert (choice["text"], choice["finish_reason"]) == ("", "length")
        assert choice["prompt_logprobs"][0] is None
        told = choice["prompt_logprobs"][1:]
        got = [entry[str(token)] for entry, token in zip(told, ids[1:])]
        assert [x["logprob"] for x in got] == pytest.approx([s for s, _ in wanted], abs=2e-5)
        assert [x["rank"] == 1 for x in got] == [best for _, best in wanted]
        assert all(3 <= len(entry) <= 4 for entry in told)


def test_an_empty_message_is_a_prompt(server):
    assert answer(server, "", 1)["usage"]["prompt_tokens"] == PLAIN_FRAME


def test_a_value_that_is_refused_ends_the_server_with_its_place(folder):
    file = folder / "model.safetensors"
    with open(file, "r+b") as f:
        n_header = struct.unpack("<Q", f.read(8))[0]
        begin = json.loads(f.read(n_header))["norm.weight"]["data_offsets"][0]
        f.seek(8 + n_header + begin)
        f.write(b"\x80\x7f")  # an infinity
    with Server(model=folder, wait=False, expect_exit=1) as server:
        assert server.wait() == 1
        assert "listening on" in server.stdout()
        assert "norm.weight" in server.stderr() and "model.safetensors" in server.stderr()


def test_a_folder_that_is_no_model_ends_before_the_port_opens(folder, tmp_path):
    def refused(*words, options=()):
        done = run_cli("serve", str(folder), "--port", "0", "--admin-port", "0", *options)
        assert done.returncode == 1 and "listening" not in done.stdout, done
        assert all(word in done.stderr for word in words), done.stderr

    config = json.loads((folder / "config.json").read_text())

    def write(**changes):
        text_config = config["text_config"] | changes
        (folder / "config.json").write_text(json.dumps(config | {"text_config": text_config}))

    # Another context needs no other weights.
    write(max_position_embeddings=1_048_576)
    refused("--max-running", "--context", "GB available", options=["--kv-memory", "9000GiB"])
    refused("kv-memory", "at least", "bytes", options=["--kv-memory", "1KiB"])
    write(vocab_size=config["text_config"]["vocab_size"] * 2)
    refused("embed.weight")
    (folder / "config.json").unlink()
    refused("config.json")


def test_what_answers_is_named_once():
    for arguments in ([], ["--model", str(TINY), str(TINY)], [str(TINY), "--script-engine"]):
        done = run_cli("serve", *arguments, "--port", "0", "--admin-port", "0")
        assert done.returncode == 2, done


def test_a_script_on_top_of_a_model_says_what_is_sampled():
    """The model computes; its tokens are the script's, and what is cached is what it computed."""
    script = ["</think>an answer from the script", "</think>another one"]
    with Server(script=script, model=TINY, options=OPTIONS) as server:
        wait_until(lambda: ready(server), 30, "the model")
        bodies = [once(server.port, chat_request("a" * 150)).json() for _ in range(2)]
    texts = [x["choices"][0]["message"]["content"] for x in bodies]
    assert texts == ["an answer from the script", "another one"]
    cached = [x["usage"]["prompt_tokens_details"]["cached_tokens"] for x in bodies]
    assert cached[0] == 0 and cached[1] >= 150


def test_the_folder_may_stand_in_the_config_file(tmp_path):
    config = tmp_path / "sluice.toml"
    config.write_text(f'model = "{TINY}"\nmax-running = 2\nport = 0\nadmin-port = 0\n')
    arguments = ["--config", str(config)]
    done = run_cli("serve", *arguments, "--print-config")
    assert f'model = "{TINY}"' in done.stdout
