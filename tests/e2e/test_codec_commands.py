"""`sluice tokenize`, `render` and `decode`: the codec without a server."""

import json
import subprocess
from pathlib import Path

import pytest

from harness.server import REPOSITORY, binary, environment, run_cli

CUT = str(REPOSITORY / "tests/golden/tokenizer/tokenizer.json")
CHAT = {"model": "deepseek-flash", "messages": [{"role": "user", "content": "hi"}]}
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
    },
}
CALL = (
    "think</think>\n\n<｜DSML｜ calls>\n"
    '<｜DSML｜ invoke name="look">\n'
    '<｜DSML｜ parameter name="at" string="true">sky</｜DSML｜ parameter>\n'
    "</｜DSML｜ invoke>\n</｜DSML｜ calls>"
)


def run(*arguments, stdin=b""):
    """The command's exit code, stdout and stderr, as bytes that need not be text."""
    ended = subprocess.run(
        [binary(), *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
        env=environment(),
    )
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode()


def done(*arguments, stdin=b""):
    code, out, err = run(*arguments, stdin=stdin)
    assert code == 0, err
    return out


@pytest.fixture
def request_file(tmp_path):
    def write(body):
        path = tmp_path / "request.json"
        path.write_text(json.dumps(body))
        return path

    return write


# --- tokenize


def test_tokenize_shows_boundaries_and_tells_the_tokenizer():
    code, out, err = run("tokenize", "Hello wörld\n")
    assert code == 0
    lines = out.splitlines()
    assert [line.split(None, 1)[1] for line in lines[:-1]][:2] == ['"H"', '"ell"']
    assert lines[-2].endswith('"\\n"') and lines[-1] == f"{len(lines) - 1} tokens"
    assert "built-in tokenizer with 4096 tokens" in err and "--tokenizer" in err


def test_tokenize_tells_control_tokens_from_their_spelling():
    as_text = json.loads(done("tokenize", "a<｜User｜>", "--json"))
    as_token = json.loads(done("tokenize", "a<｜User｜>", "--json", "--control-tokens"))
    assert as_token["token_strs"] == ["a", "<｜User｜>"] and as_token["count"] == 2
    assert as_text["count"] > 2 and "<｜User｜>" not in as_text["token_strs"]
    lines = done("tokenize", "a<｜User｜>", "--control-tokens").splitlines()
    assert lines[1].split() == [str(as_token["tokens"][1]), "<｜User｜>"]


def test_tokenize_from_a_file_and_stdin_and_a_folder(tmp_path):
    text = "one two\tthree 字" * 3000
    (tmp_path / "text").write_text(text)
    (tmp_path / "tokenizer.json").write_bytes(Path(CUT).read_bytes())
    from_file = done("tokenize", "--file", tmp_path / "text", "--json")
    assert from_file == done("tokenize", "-", "--json", stdin=text.encode())
    assert from_file == done("tokenize", "-", "--json", "--tokenizer", CUT, stdin=text.encode())
    code, out, err = run("tokenize", text[:100], "--count", "--tokenizer", tmp_path)
    assert code == 0 and out == done("tokenize", text[:100], "--count")
    assert f"{tmp_path}/tokenizer.json with 4096 tokens" in err
    ids = json.loads(from_file)["tokens"]
    (tmp_path / "ids").write_text(json.dumps(ids))
    assert done("decode", "--tokens", tmp_path / "ids") == text


def test_tokenize_of_nothing_and_of_what_is_no_text():
    assert done("tokenize", "", "--count") == "0\n"
    assert done("tokenize", "-", stdin=b"") == "0 tokens\n"
    code, out, err = run("tokenize", "-", stdin=b"ab\xff")
    assert (code, out) == (1, "") and "not UTF-8" in err and "byte 2 is 0xff" in err
    # What a terminal must not get, and half a character.
    shown = done("tokenize", "\x1b[2J\u202e🙂")
    assert "\x1b" not in shown and "\u202e" not in shown
    assert "\\x1b" in shown and "\\xf0" in shown


@pytest.mark.parametrize(
    "arguments",
    [[], ["a", "--file", "b"], ["a", "--json", "--count"], ["a", "b"], ["a", "--malformed-calls"]],
)
def test_tokenize_wrong_usage(arguments):
    code, out, err = run("tokenize", *arguments)
    assert code == 2 and out == "" and "sluice tokenize" in err


# --- render


def test_render_marks_tokens_and_control_tokens(request_file):
    body = CHAT | {"messages": [{"role": "user", "content": "a│<｜User｜>\nb\x1b"}]}
    out = done("render", request_file(body), "--api", "chat")
    assert out.startswith("⟦<｜begin▁of▁sentence｜>⟧⟦<｜System｜>⟧Re│ason│ing")
    assert out.count("⟦<｜User｜>⟧") == 1 and "a│\\xe2│\\x94│\\x82│<│" in out and "\\x1b" in out
    assert "⟦<｜Assistant｜>⟧⟦<think>⟧\n\n" in out
    assert "at most 65536 of the answer" in out and "temperature 1, top_p 1" in out
    plain = done("render", request_file(body), "--api", "chat", "--text")
    assert plain.endswith("<｜User｜>a│<｜User｜>\nb\x1b<｜Assistant｜><think>")


def test_render_as_json_has_what_the_server_would_do(request_file):
    body = CHAT | {
        "temperature": 0.5,
        "max_tokens": 7,
        "stop": ["x"],
        "tools": [TOOL],
        "foo": 1,
        "logit_bias": {"5": -100},
    }
    path = request_file(body)
    got = json.loads(done("render", path, "--api", "chat", "--json"))
    assert got["count"] == len(got["token_ids"]) == len(got["token_strs"])
    assert got["prompt"] == done("render", path, "--api", "chat", "--text")
    sampling = got["sampling_params"]
    assert (sampling["temperature"], sampling["max_tokens"], sampling["stop"]) == (0.5, 7, ["x"])
    assert sampling["logit_bias"] == {"5": -100.0}
    assert got["constraint"]["type"] == "tool_call"
    assert got["constraint"]["schema"][0]["function"]["name"] == "look"
    assert got["ignored_fields"] == ["foo"]


@pytest.mark.parametrize(
    "api,body",
    [
        ("messages", CHAT | {"max_tokens": 5}),
        ("responses", {"model": "deepseek-flash", "input": "hi"}),
        ("completions", {"model": "deepseek-flash", "prompt": "hi"}),
    ],
)
def test_render_of_each_api(request_file, api, body):
    text = done("render", "-", "--api", api, "--text", stdin=json.dumps(body).encode())
    assert text.startswith("<｜begin▁of▁sentence｜>") and "hi" in text


def test_render_says_what_the_api_says(request_file):
    path = request_file(CHAT | {"model": "gpt-9"})
    code, out, err = run("render", path, "--api", "chat", "--json")
    error = json.loads(out)["error"]
    assert code == 1 and (error["code"], error["param"]) == ("model_not_found", "model")
    assert error["message"] in err and "HTTP 404" in err and "field model" in err
    path = request_file(CHAT | {"max_tokens": 0})
    code, out, err = run("render", path, "--api", "messages", "--json")
    assert code == 1 and json.loads(out)["type"] == "error" and "max_tokens" in err
    for arguments, word in [
        ([path], "--api"),
        ([path, "--api", "chats"], "completions"),
        (["--api", "chat"], "REQUEST.json"),
        ([path, "--api", "chat", "--text", "--json"], "--text"),
    ]:
        code, out, err = run("render", *arguments)
        assert code == 2 and out == "" and word in err, arguments


def test_render_and_decode_have_the_settings_of_a_server(request_file, tmp_path):
    config = tmp_path / "sluice.toml"
    config.write_text('sampling-policy = "official"\nmodel-name = "mine"\nport = 9\n')
    path = request_file(CHAT | {"model": "mine", "temperature": 0.5})
    given = ["--api", "chat", "--config", config, "--json"]
    assert json.loads(done("render", path, *given))["sampling_params"]["temperature"] == 1.0
    stronger = json.loads(done("render", path, *given, "--sampling-policy", "request"))
    assert stronger["sampling_params"]["temperature"] == 0.5
    code, _, err = run("render", path, "--api", "chat", "--sampling-policy", "loud")
    assert code == 2 and "request, official" in err


# --- decode


def test_decode_makes_the_answer_of_each_api(tmp_path):
    output = "think</think>\n\nhello"
    chat = json.loads(done("decode", "-", "--api", "chat", stdin=output.encode()))
    message = chat["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("think", "hello")
    assert chat["choices"][0]["finish_reason"] == "stop"
    assert chat["usage"]["completion_tokens_details"]["reasoning_tokens"] > 0
    blocks = json.loads(done("decode", "-", "--api", "messages", stdin=output.encode()))["content"]
    assert [b["type"] for b in blocks] == ["thinking", "text"]
    items = json.loads(done("decode", "-", "--api", "responses", stdin=output.encode()))["output"]
    assert [i["type"] for i in items] == ["reasoning", "message"]
    text = json.loads(done("decode", "-", "--api", "completions", stdin=b"plain"))["choices"][0]
    assert text["text"] == "plain"


def deltas(stream):
    frames = [f.removeprefix("data: ") for f in stream.strip().split("\n\n")]
    assert frames.pop() == "[DONE]"
    return [json.loads(f)["choices"][0]["delta"] for f in frames]


def test_decode_reads_calls_if_the_request_has_tools(request_file):
    with_tools = request_file(CHAT | {"tools": [TOOL]})
    given = ["decode", "-", "--api", "chat", "--request", with_tools]
    choice = json.loads(done(*given, stdin=CALL.encode()))["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    function = choice["message"]["tool_calls"][0]["function"]
    assert (function["name"], json.loads(function["arguments"])) == ("look", {"at": "sky"})
    joined = set()
    for chunk in (1, 3, 1000):
        stream = deltas(done(*given, "--stream", "--chunk", chunk, stdin=CALL.encode()))
        calls = [d["tool_calls"][0]["function"] for d in stream if "tool_calls" in d]
        joined.add("".join(c["arguments"] for c in calls))
    assert joined == {function["arguments"]}
    cut = CALL[: CALL.index("</｜DSML｜ invoke>")]
    choice = json.loads(done(*given, "--cut", stdin=cut.encode()))["choices"][0]
    assert choice["finish_reason"] == "length"


def test_decode_of_ids_stops_where_the_model_would(request_file, tmp_path):
    text = "</think>one two three<｜end▁of▁sentence｜>four"
    ids = json.loads(done("tokenize", text, "--json", "--control-tokens"))["tokens"]
    path = tmp_path / "ids.json"
    path.write_text(json.dumps(ids))
    assert done("decode", "--tokens", path) == text
    given = ["decode", "--tokens", path, "--api", "chat"]
    choice = json.loads(done(*given))["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("one two three", "stop")
    limited = json.loads(done(*given, "--request", request_file(CHAT | {"max_tokens": 2})))
    assert limited["choices"][0]["finish_reason"] == "length"
    assert limited["usage"]["completion_tokens"] == 2
    stopped = request_file(CHAT | {"stop": [" two"], "n": 2, "logprobs": True})
    choices = json.loads(done(*given, "--request", stopped))["choices"]
    assert [c["message"]["content"] for c in choices] == ["one", "one"]
    path.write_text("[1, 4096]")
    code, out, err = run("decode", "--tokens", path)
    assert code == 1 and out == "" and "element 1 is 4096" in err


def test_decode_wrong_usage_and_refused_requests(request_file, tmp_path):
    for arguments, word in [
        (["-"], "--api"),
        ([], "--tokens"),
        (["-", "--tokens", "x", "--api", "chat"], "--tokens"),
        (["--tokens", "x", "--stream"], "--api"),
        (["-", "--api", "chat", "--chunk", "0"], "chunk"),
    ]:
        code, out, err = run("decode", *arguments)
        assert code == 2 and out == "" and word in err, (arguments, err)
    refused = request_file(CHAT | {"temperature": 9})
    code, out, err = run("decode", "-", "--api", "chat", "--request", refused, stdin=b"a")
    assert code == 1 and json.loads(out)["error"]["type"] == "invalid_request_error"
    assert "temperature" in err


# --- switches, through the product


def test_switches_of_the_answer():
    output = b"th</think>a<\xef\xbd\x9cUser\xef\xbd\x9c>b"
    for value, content in [("remove", "ab"), ("show", "a<｜User｜>b")]:
        got = json.loads(
            done("decode", "-", "--api", "chat", "--stray-specials", value, stdin=output)
        )
        assert got["choices"][0]["message"]["content"] == content
    for value, has_it in [("reasoning_content", False), ("both", True)]:
        given = ["decode", "-", "--api", "chat", "--reasoning-field", value]
        message = json.loads(done(*given, stdin=output))["choices"][0]["message"]
        assert message["reasoning_content"] == "th"
        assert message.get("reasoning") == ("th" if has_it else None)
        stream = deltas(done(*given, "--stream", stdin=output))
        assert all(
            ("reasoning" in d) == has_it and (not has_it or d["reasoning"] == d["reasoning_content"])
            for d in stream
        )


def test_the_profile_sets_every_switch_that_is_not_set_itself(request_file):
    printed = run_cli("serve", "--script", "x", "--profile", "reference", "--print-config").stdout
    assert 'malformed-calls = "reference"  # profile reference' in printed
    assert 'messages-prefill = "turn"  # profile reference' in printed
    path = request_file(CHAT | {"temperature": 0.5})
    given = ["render", path, "--api", "chat", "--json", "--profile", "reference"]
    assert json.loads(done(*given))["sampling_params"]["temperature"] == 1.0
    own = json.loads(done(*given, "--sampling-policy", "request"))
    assert own["sampling_params"]["temperature"] == 0.5
