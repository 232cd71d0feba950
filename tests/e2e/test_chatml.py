"""A model that writes ChatML, known by its GGUF file: what the commands show and what a server tells of it."""

import json
from pathlib import Path


from harness.models import SMOLLM2, need
from harness import raw_http
from harness.server import REPOSITORY, Server, wait_until
from test_codec_commands import done, run

GOLDEN = REPOSITORY / "tests/golden/tokenizer"
GGUF = str(GOLDEN / "smollm2.gguf")
CHAT = {"model": "deepseek-flash", "messages": [{"role": "user", "content": "hi"}]}


def encode_cases(name):
    for line in (GOLDEN / name).read_text(encoding="utf-8").split("\n"):
        case = json.loads(line) if line else {}
        if case.get("kind") == "encode" and "\0" not in case["text"]:
            yield case


def ids_of(text, tokenizer, *flags):
    shown = done("tokenize", "-", "--json", "--tokenizer", tokenizer, *flags, stdin=text.encode())
    return json.loads(shown)["tokens"]


def test_tokens_of_a_gguf_are_those_of_the_reference():
    cases = list(encode_cases("smollm2_cases.jsonl"))[:24]
    assert cases
    for case in cases:
        assert ids_of(case["text"], GGUF) == case["ids"], case["name"]
        added = case.get("ids_added", case["ids"])
        assert ids_of(case["text"], GGUF, "--control-tokens") == added, case["name"]


def test_tokens_of_the_whole_model_are_those_of_the_reference():
    path = need(SMOLLM2).path
    for case in encode_cases("smollm2_whole_cases.jsonl"):
        assert ids_of(case["text"], path) == case["ids"], case["name"]


def test_render_and_decode_take_a_gguf(tmp_path):
    request = tmp_path / "request.json"
    request.write_text(json.dumps(CHAT))
    code, out, err = run("render", request, "--api", "chat", "--text", "--tokenizer", GGUF)
    assert code == 0
    assert "chat format smollm2" in err
    assert out.endswith("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
    output = tmp_path / "output"
    output.write_text("Hello.<|im_end|>")
    shown = json.loads(done("decode", output, "--api", "chat", "--tokenizer", GGUF))
    assert shown["choices"][0]["message"] == {"role": "assistant", "content": "Hello."}


def test_a_folder_with_one_gguf_is_that_file(tmp_path):
    (tmp_path / "model.gguf").write_bytes(Path(GGUF).read_bytes())
    code, _, err = run("tokenize", "a", "--tokenizer", tmp_path)
    assert code == 0 and "model.gguf" in err


def test_another_format_may_be_chosen_and_must_fit(tmp_path):
    request = tmp_path / "request.json"
    request.write_text(json.dumps(CHAT))
    flags = ("render", request, "--api", "chat", "--text", "--tokenizer", GGUF, "--chat-format")
    assert "You are Qwen" in done(*flags, "qwen2.5")
    code, _, err = run(*flags, "deepseek-v4.1")
    assert code == 1 and "begin▁of▁sentence" in err
    code, _, err = run(*flags, "llama-3")
    assert code == 2 and "auto, deepseek-v4.1, smollm2, qwen2.5" in err


def test_a_tokenizer_that_is_not_known_is_refused_with_the_known_ones(tmp_path):
    tokenizer = json.loads((GOLDEN / "qwen2.json").read_text(encoding="utf-8"))
    for token in tokenizer["added_tokens"]:
        if token["content"] == "<tool_call>":
            token["content"] = "<other>"
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(tokenizer))
    code, _, err = run("tokenize", "a", "--tokenizer", path)
    assert code == 1
    assert "deepseek-v4.1, smollm2" in err and "qwen2.5" in err and "--chat-format" in err


def test_a_broken_gguf_is_an_error_with_its_path(tmp_path):
    whole = Path(GGUF).read_bytes()
    for n in (0, 3, 40, len(whole) // 2, len(whole) - 1):
        path = tmp_path / "cut.gguf"
        path.write_bytes(whole[:n])
        code, _, err = run("tokenize", "a", "--tokenizer", path)
        assert code == 1 and "cut.gguf" in err, (n, err)


def test_scripts_answer_with_the_tokenizer_of_a_gguf():
    with Server(script=["Hello."], options=["--tokenizer", GGUF]) as server:
        request = raw_http.request_bytes("POST", "/v1/chat/completions", [], json.dumps(CHAT).encode())
        answer = json.loads(raw_http.once(server.port, request).body)
        assert answer["choices"][0]["message"]["content"] == "Hello."


def ascii_tokenizer(path, n_tokens):
    """The rules of SmolLM2, one token for each ASCII character, and the control tokens."""
    cut = json.loads((GOLDEN / "smollm2.json").read_text(encoding="utf-8"))
    others = iter(range(0x100, 0x200))
    shown = [chr(b) if 0x21 <= b < 0x7F else chr(next(others)) for b in range(128)]
    cut["model"]["vocab"] = {spelling: id for id, spelling in enumerate(shown)}
    cut["model"]["merges"] = []
    controls = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    cut["added_tokens"] = [
        cut["added_tokens"][0] | {"id": 128 + i, "content": content}
        for i, content in enumerate(controls[: n_tokens - 128])
    ]
    path.write_text(json.dumps(cut))
    return path


def ask(server, body, path="/v1/chat/completions"):
    request = raw_http.request_bytes("POST", path, [], json.dumps(body).encode())
    return raw_http.once(server.port, request)


def test_a_model_is_served_by_its_own_name_and_reached_by_the_old_ones(tmp_path):
    model = tmp_path / "Tiny-Llama-Instruct.Q4_K_M.gguf"
    model.write_bytes((REPOSITORY / "tests/golden/dense/llama.gguf").read_bytes())
    tokenizer = ascii_tokenizer(tmp_path / "tokenizer.json", 131)
    options = ["--tokenizer", tokenizer, "--context", "256"]
    with Server(model=model, options=options, own_tokenizer=False) as server:
        ready = raw_http.request_bytes("GET", "/ready")
        wait_until(lambda: raw_http.once(server.port, ready).status == 200, 30, "ready")
        shown = raw_http.once(server.port, raw_http.request_bytes("GET", "/v1/models"))
        listed = json.loads(shown.body)["data"]
        assert [m["id"] for m in listed] == ["tiny-llama-instruct"]
        assert listed[0]["owned_by"] == "unknown"
        for name in ("tiny-llama-instruct", "deepseek-flash", "DeepSeek-V4.1-Flash"):
            answer = ask(server, CHAT | {"model": name, "max_tokens": 4, "min_tokens": 4})
            assert answer.status == 200, answer.body
            assert answer.header("x-served-model") == "tiny-llama-instruct"
            assert raw_http.once(server.port, raw_http.request_bytes("GET", f"/v1/models/{name}")).status == 200
            usage = json.loads(answer.body)["usage"]
            assert usage["completion_tokens"] == 4
        assert ask(server, CHAT | {"model": "other"}).status == 404
