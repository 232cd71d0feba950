"""`sluice batch`: a file of requests, answered as the server answers them, and gone on with after a kill."""

import json
import os
import pty
import random
import re
import shutil
import signal
import subprocess
import time

import pytest

from harness import byte_tokenizer
from harness.raw_http import once, request_bytes
from harness.server import REPOSITORY, Server, binary, environment, run_cli, script_text

TINY = REPOSITORY / "tests/golden/tiny-a"
CHAT, RESPONSES, MESSAGES, COMPLETIONS = URLS = (
    "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/completions",
)  # fmt: skip
CALL = (
    'Hm.</think>So.\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">\n'
    '<｜DSML｜ parameter name="x" string="false">1</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>'
)


def body_of(url, text, n_max, **more):
    body = {"model": "deepseek-flash", **more}
    if url == RESPONSES:
        return body | {"input": text, "max_output_tokens": n_max}
    if url == COMPLETIONS:
        return body | {"prompt": text, "max_tokens": n_max}
    return body | {"messages": [{"role": "user", "content": text}], "max_tokens": n_max}


def row(custom_id, url, body):
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body}


class Batch:
    """Files of one batch, and runs over them."""

    def __init__(self, folder, rows, script=None, model=None, options=()):
        self.input = folder / "in.jsonl"
        self.output = folder / "out.jsonl"
        lines = [x if isinstance(x, str) else json.dumps(x, ensure_ascii=False) for x in rows]
        self.input.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        self.what = [str(model)] if model else []
        if script is not None:
            path = folder / "script.jsonl"
            path.write_text(script_text(script), encoding="utf-8")
            self.what = ["--script", str(path)]
        if model:
            n_tokens = json.loads((model / "config.json").read_text())["text_config"]["vocab_size"]
            tokenizer = folder / "tokenizer.json"
            tokenizer.write_text(byte_tokenizer.text(n_tokens), encoding="utf-8")
            options = ["--tokenizer", str(tokenizer), *options]
        self.options = [str(x) for x in options]

    def command(self, *more):
        return ["batch", *self.what, str(self.input), str(self.output), *self.options, *more]

    def run(self, *more, code=0):
        done = run_cli(*self.command(*more), timeout=100)
        assert done.returncode == code, done
        return done

    def kill_at(self, rng, n_bytes, *more):
        """Starts it and kills it: one time in four while it starts, else a moment after it has written up to n_bytes more;
        if it ends before, it has ended."""
        n_written = rng.uniform(0, n_bytes) + self.n_written()
        seconds = rng.uniform(0, 0.2) if rng.random() < 0.25 else 100
        delay = rng.uniform(0, 0.02)
        process = subprocess.Popen(
            [binary(), *self.command(*more)], env=environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        deadline = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < deadline and self.n_written() <= n_written:
            time.sleep(0.002)
        time.sleep(delay)
        process.kill()
        stderr = process.communicate()[1]
        assert process.returncode in (0, -signal.SIGKILL), (process.returncode, stderr)
        return process.returncode == 0

    def n_written(self):
        return self.output.stat().st_size if self.output.exists() else 0

    def lines(self):
        text = self.output.read_text(encoding="utf-8")
        assert text == "" or text.endswith("\n")
        return [json.loads(line) for line in text.splitlines()]

    def by_id(self):
        """Lines by custom_id, each once; errors of rows that repeat one or have none by their own id."""
        found = {}
        for line in self.lines():
            key = line["id"] if line["error"] else line["custom_id"]
            assert key not in found, f"twice: {key}"
            found[key] = line
        return found


def steady(value):
    """Without what is of a run: when it was, and what its cache had."""
    if isinstance(value, dict):
        moving = ("created", "created_at", "completed_at", "cached_tokens", "cache_read_input_tokens",
                  "prompt_cache_hit_tokens", "prompt_cache_miss_tokens")  # fmt: skip
        if "cache_read_input_tokens" in value:  # Messages counts the others as input
            n_prompt = value["input_tokens"] + value["cache_read_input_tokens"]
            value = value | {"input_tokens": n_prompt}
        return {k: steady(v) for k, v in value.items() if k not in moving}
    if isinstance(value, list):
        return [steady(v) for v in value]
    return value


def without_names(value):
    """And without ids, which the server makes from random numbers."""
    if isinstance(value, dict):
        names = ("id", "request_id", "signature", "call_id", "item_id", "store", "encrypted_content")
        return {k: without_names(v) for k, v in value.items() if k not in names}
    if isinstance(value, list):
        return [without_names(v) for v in value]
    if isinstance(value, str):
        return re.sub(r"req_[0-9a-f]{24}", "req_", value)
    return value


def test_bodies_are_those_of_the_server(tmp_path):
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}
    tools = {
        CHAT: [{"type": "function", "function": tool}],
        RESPONSES: [{"type": "function", **tool}],
        MESSAGES: [{"name": "f", "input_schema": tool["parameters"]}],
    }
    script = [
        {"when": {"tool": "f"}, "times": "always", "out": CALL},
        {"when": {"last": "[limit]"}, "times": "always", "refuse": "rate_limit"},
        {"when": {"last": "[fail]"}, "times": "always", "out": "x", "fail_after": 0},
        {"times": "always", "out": "I think.</think>Grüße 🙂, and more."},
    ]
    bodies = []
    for url in URLS:
        bodies.append((url, body_of(url, "Hallo 🙂", 50)))
        bodies.append((url, body_of(url, "short", 3)))
        bodies.append((url, body_of(url, "[limit]", 5)))
        bodies.append((url, body_of(url, "[fail]", 5)))
        bodies.append((url, body_of(url, "bad", 5, temperature=17)))
        bodies.append((url, body_of(url, "bad", 5, model=7)))
        bodies.append((url, body_of(url, "unknown", 9, no_such_field=1)))
        bodies.append((url, []))
        bodies.append((url, {}))
        if url in tools:
            bodies.append((url, body_of(url, "call", 200, tools=tools[url])))
    bodies.append((CHAT, body_of(CHAT, "n", 30, n=3, stop=["more"], logprobs=True, top_logprobs=2)))
    bodies.append((RESPONSES, body_of(RESPONSES, "x", 9, previous_response_id="resp_none")))
    bodies.append((CHAT, body_of(CHAT, "x" * 10_000, 5)))
    options = ["--context", "8000"]
    batch = Batch(tmp_path, [row(f"{i}", *x) for i, x in enumerate(bodies)], script, options=options)
    tokenizer = tmp_path / "bytes.json"
    tokenizer.write_text(byte_tokenizer.text(), encoding="utf-8")
    batch.options += ["--tokenizer", str(tokenizer)]
    batch.run()
    answers = batch.by_id()
    n_good = 0
    with Server(script=script, options=options) as server:
        for i, (url, body) in enumerate(bodies):
            asked = once(server.port, request_bytes("POST", url, body=json.dumps(body).encode()))
            line = answers[str(i)]
            assert line["error"] is None and line["response"]["status_code"] == asked.status, (body, line)
            expected = json.loads(asked.body)
            got = line["response"]["body"]
            assert without_names(steady(got)) == without_names(steady(expected)), (url, body)
            n_good += asked.status == 200
    assert n_good == 4 * 3 + 3 + 1
    assert answers["6"]["response"]["ignored_fields"] == ["no_such_field"]


def test_rows_that_are_no_requests_are_lines_and_end_nothing(tmp_path):
    good = row("good", CHAT, body_of(CHAT, "x", 9))
    rows = [
        "{not json", "[]", '"text"', good, "", good | {"body": {}}, good | {"custom_id": "url", "url": "/v1/embeddings"},
        good | {"custom_id": "get", "method": "GET"}, {"custom_id": "bare"}, {k: v for k, v in good.items() if k != "custom_id"},
        good | {"custom_id": "é\n\"", "url": "/chat/completions"}, good | {"custom_id": "i" * 2000},
    ]  # fmt: skip
    batch = Batch(tmp_path, rows, ['"</think>ok"'.strip('"')])
    done = batch.run()
    lines = batch.lines()
    assert len(lines) == 11  # one line is blank
    codes = sorted(line["error"]["code"] for line in lines if line["error"])
    assert codes == sorted([
        "invalid_json_line", "invalid_json_line", "invalid_json_line", "duplicate_custom_id", "invalid_url",
        "invalid_method", "invalid_method", "missing_custom_id", "invalid_custom_id",
    ])  # fmt: skip
    assert all(line["response"] is None for line in lines if line["error"])
    assert {line["custom_id"] for line in lines if line["response"]} == {"good", 'é\n"'}
    assert "11 rows: 2 answered, 9 with errors" in done.stdout, done.stdout


def test_a_row_that_streams_is_answered_whole(tmp_path):
    rows = [row(url, url, body_of(url, "x", 9, stream=True)) for url in URLS]
    batch = Batch(tmp_path, rows, [{"times": "always", "out": "</think>ok"}])
    batch.run()
    for line in batch.by_id().values():
        assert line["response"]["status_code"] == 200 and "ok" in json.dumps(line["response"]["body"])
        assert line["response"]["ignored_fields"] == ["stream"]


SLOW_SCRIPT = [
    {"when": {"last": "[boom]"}, "times": "always", "out": "ab", "fail_after": 1},
    {"when": {"prompt": "long"}, "times": "always", "out": "Let me see.</think>A longer answer. " * 3, "pace_ms": 4},
    {"times": "always", "out": "Hm.</think>An answer.", "pace_ms": 2},
]  # fmt: skip


def mixed_rows(n):
    rows = []
    for i in range(n):
        text = ("boom [boom]", "long", "short", "x" * (i * 13 % 400))[i % 4] + f" {i}"
        rows.append(row(f"r{i}", URLS[i % 4 if i % 3 else (i + 1) % 4], body_of(URLS[i % 4 if i % 3 else (i + 1) % 4], text, 60)))
    return [*rows, "not json", "not json", rows[0], "", row("bad", CHAT, {"model": "x"})]


def kill_and_compare(batch, whole, n_kills, seed, *options):
    """Kills it `n_kills` times, then lets it end."""
    rng = random.Random(seed)
    expected = {key: steady(line) for key, line in whole.by_id().items()}
    n_early = 0
    part = 1.5 * whole.n_written() / n_kills
    for kill in range(n_kills):
        ended = batch.kill_at(rng, part, *(["--resume"] if kill else []), *options)
        n_early += not ended
        if batch.output.exists() and rng.random() < 0.5:  # torn, as after a longer write
            text = batch.output.read_bytes()
            cut = text[: len(text) - rng.randrange(1, 200)] if len(text) > 400 else text
            batch.output.write_bytes(cut)
    batch.run("--resume", *options)
    assert {key: steady(line) for key, line in batch.by_id().items()} == expected
    assert n_early > 0, "every run ended before it was killed"


def kill_scripted(tmp_path, n_kills, seed):
    options = ["--max-running", "4", "--quiet"]
    rows = mixed_rows(n_kills * 25)
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    whole = Batch(tmp_path / "whole", rows, SLOW_SCRIPT, options=options)
    whole.run()
    killed = Batch(tmp_path / "killed", rows, SLOW_SCRIPT, options=options)
    kill_and_compare(killed, whole, n_kills, seed)


def test_killed_and_resumed_gives_what_an_uninterrupted_run_gives(tmp_path, seed):
    kill_scripted(tmp_path, 8, seed)


@pytest.mark.slow
def test_killed_many_times(tmp_path, seed):
    kill_scripted(tmp_path, 20, seed)


def model_rows(n):
    rows = []
    for i in range(n):
        url = URLS[i % 4]
        off = {CHAT: {"thinking": {"type": "disabled"}}, MESSAGES: {"thinking": {"type": "disabled"}}}
        more = off.get(url, {}) | ({"temperature": 0} if i % 5 == 0 else {})
        more |= {"n": 2} if url == CHAT and i % 8 == 0 else {}
        rows.append(row(f"r{i}", url, body_of(url, "Say something. " * (i % 3) + str(i), 6 + i % 5, **more)))
    return rows


def kill_model(tmp_path, n_kills, seed):
    options = ["--max-running", "3", "--prefill-chunk", "16", "--threads", "1", "--quiet"]
    rows = model_rows(24)
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    whole = Batch(tmp_path / "whole", rows, model=TINY, options=options)
    whole.run()
    statuses = {line["response"]["status_code"] for line in whole.lines()}
    assert statuses == {200} and len(whole.lines()) == len(rows)
    # More at once, and other pieces: not what the tokens depend on.
    killed = Batch(tmp_path / "killed", rows, model=TINY, options=["--max-running", "5", *options[2:]])
    kill_and_compare(killed, whole, n_kills, seed)


def test_a_models_answers_are_the_same_in_an_interrupted_run(tmp_path, seed):
    kill_model(tmp_path, 4, seed)


@pytest.mark.slow
def test_a_models_answers_are_the_same_however_often_it_is_killed(tmp_path, seed):
    kill_model(tmp_path, 20, seed)


def test_resume_needs_the_input_that_the_output_was_made_from(tmp_path):
    rows = [row(f"{i}", CHAT, body_of(CHAT, "x", 9)) for i in range(3)]
    batch = Batch(tmp_path, rows, [{"times": "always", "out": "</think>ok"}])
    batch.run()
    before = batch.output.read_bytes()
    refused = batch.run(code=1)
    assert "exists already" in refused.stderr and "--resume" in refused.stderr
    text = batch.input.read_text()
    for other in (text + text.splitlines()[0] + "\n", text.replace('"1"', '"7"'), "", text[::-1]):
        batch.input.write_text(other)
        refused = batch.run("--resume", code=1)
        assert "another input" in refused.stderr, refused.stderr
    batch.input.write_text(text)
    assert "3 of all were there before" in batch.run("--resume").stdout
    assert batch.output.read_bytes() == before
    batch.output.write_text("{}\n")
    assert "line 1" in batch.run("--resume", code=1).stderr
    assert batch.output.read_text() == "{}\n"


def test_resume_begins_an_output_that_is_missing(tmp_path):
    batch = Batch(tmp_path, [row("a", CHAT, body_of(CHAT, "x", 9))], ["</think>ok"])
    batch.run("--resume")
    assert len(batch.lines()) == 1


def test_one_run_writes_an_output_at_a_time(tmp_path):
    batch = Batch(tmp_path, [row("a", CHAT, body_of(CHAT, "x", 9))], [{"out": "</think>ok", "first_ms": 60_000}])
    process = subprocess.Popen([binary(), *batch.command("--resume")], env=environment(), stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while not batch.output.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert "another process" in batch.run("--resume", code=1).stderr
    finally:
        process.kill()
        process.wait()


def test_progress_and_counts(tmp_path):
    rows = [row(f"{i}", CHAT, body_of(CHAT, "x", 9)) for i in range(4)]
    batch = Batch(tmp_path, [*rows, "x"], [{"times": "always", "out": "</think>ok", "first_ms": 300, "cached_tokens": 3}])
    done = batch.run()
    assert re.search(r"^sluice batch: \d/5 rows \(\d+ %\), .*tokens/s, ", done.stderr, re.M), done.stderr
    assert "5 rows: 4 answered, 1 with errors\n" in done.stdout
    assert re.search(r"^\d+ tokens in \(12 of them cached\), \d+ out, in ", done.stdout, re.M), done.stdout
    batch.output.unlink()
    done = batch.run("--quiet", "--json")
    assert done.stderr == ""
    counts = json.loads(done.stdout)
    assert (counts["rows"], counts["done"], counts["failed"], counts["cached_tokens"]) == (5, 5, 1, 12)


def test_a_terminal_gets_a_bar(tmp_path):
    rows = [row(f"{i}", CHAT, body_of(CHAT, "x", 9)) for i in range(6)]
    batch = Batch(tmp_path, rows, [{"times": "always", "out": "</think>ok", "first_ms": 300}], options=["--max-running", "1"])
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [binary(), *batch.command()], env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=child,
    )  # fmt: skip
    os.close(child)
    shown = b""
    while True:
        try:
            piece = os.read(parent, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(parent)
    assert process.wait(20) == 0
    assert re.search(rb"\r\[#+ +\] \d/6 rows \(\d+ %\), \d+ tokens/s, \d+s left", shown), shown


@pytest.mark.parametrize(
    "arguments,words,code",
    [
        ([], ["MODEL", "IN.jsonl"], 2),
        (["a", "b"], ["--script"], 2),
        (["a", "b", "c", "d"], ["OUT.jsonl"], 2),
        (["--script", "SCRIPT", "none.jsonl", "out"], ["none.jsonl"], 1),
        (["no/model", "IN", "out"], ["no/model"], 1),
        (["no-model", "IN", "out"], ["no-model", "sluice pull"], 2),
        (["--script", "SCRIPT", "IN", "no-folder/out"], ["no-folder"], 1),
        (["--script", "SCRIPT", "IN", "out", "--resmue"], ["resume"], 2),
    ],
)
def test_what_cannot_run_says_why(tmp_path, arguments, words, code):
    Batch(tmp_path, [row("a", CHAT, {})], ["x"])
    names = {"SCRIPT": "script.jsonl", "IN": "in.jsonl"}
    done = run_cli("batch", *(names.get(x, x) for x in arguments), cwd=tmp_path)
    assert done.returncode == code and done.stdout == "", done
    assert all(word in done.stderr for word in words), done.stderr
    assert not (tmp_path / "out").exists()


def test_a_full_disk_ends_the_run_and_the_rest_can_follow(tmp_path):
    rows = [row(f"{i}", CHAT, body_of(CHAT, "x", 9)) for i in range(40)]
    batch = Batch(tmp_path, rows, [{"times": "always", "out": "</think>ok"}])
    limited = subprocess.run(
        ["bash", "-c", 'trap "" XFSZ; ulimit -f 4; exec "$0" "$@"', binary(), *batch.command()],
        env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert limited.returncode == 1 and "ulimit -f" in limited.stderr, limited
    assert shutil.disk_usage(tmp_path).free > 0
    batch.run("--resume")
    assert len(batch.by_id()) == 40
