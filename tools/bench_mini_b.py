#!/usr/bin/env python3
"""What a service does with a real model, measured through its API: `./dev bench mini-b`.

1. An 8k prompt, the same one again, and one that differs in its last turn (mini-b).
2. Eight streams while an 8k prompt comes in (mini-b).
3. 1,000 requests of which 900 are cancelled at random moments, beside the 100 alone (tiny-a).

mini-b is a random checkpoint of 173 million parameters, tiny-a that of the golden values. Every
answer is checked: it ends as asked, and usage says what was cached.
"""

import argparse
import asyncio
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
LONG_TOKENS = 8192
WORDS = "the a tree river stone walks over under light house cold water finds green door night and".split()
STORM_ANSWER = "these are forty tokens of a tiny answer."
OFF = {"thinking": {"type": "disabled"}}


class Server:
    def __init__(self, binary, *options):
        self.process = subprocess.Popen(
            [binary, "serve", *options, "--port", "0", "--admin-port", "0", "--log-level", "warn"],
            stdout=subprocess.PIPE,
            text=True,
        )
        text = ""
        while not (found := re.search(r"listening on http://[^:]+:(\d+)\nadmin on http://[^:]+:(\d+)\n", text)):
            line = self.process.stdout.readline()
            assert line, f"no server: {text}"
            text += line
        self.port, self.admin_port = (int(x) for x in found.groups())
        while not self.is_ready():
            time.sleep(0.1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.stdout.read()
        assert self.process.wait() == 0

    def is_ready(self):
        try:
            return self.get("/ready").status == 200
        except OSError:
            return False

    def get(self, path, port=None):
        return urllib.request.urlopen(f"http://127.0.0.1:{port or self.port}{path}", timeout=10)

    def post(self, path, body):
        url = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
        return json.loads(urllib.request.urlopen(request, timeout=3600).read())

    def metric(self, name):
        text = self.get("/metrics", self.admin_port).read().decode()
        return sum(float(x) for x in re.findall(rf"^sluice_{name}(?:\{{.*\}})? (\S+)$", text, re.M))


class Answer:
    """One streamed answer: times of its tokens, usage, and whether it came to its end."""

    def __init__(self):
        self.sent = time.perf_counter()
        self.times, self.usage, self.is_done = [], None, False

    @property
    def ttft(self):
        return self.times[0] - self.sent

    @property
    def gaps(self):
        return [b - a for a, b in zip(self.times, self.times[1:])]


async def stream(server, body, cancel_after=None, answer=None):
    """A chat, as a stream; after that many seconds its client goes away."""
    answer = answer or Answer()
    try:
        await asyncio.wait_for(_read(server, body, answer), cancel_after)
    except asyncio.TimeoutError:
        pass
    return answer


async def _read(server, body, answer):
    body = body | {"model": "deepseek-flash", "stream": True, "stream_options": {"include_usage": True}} | OFF
    data = json.dumps(body).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(data)}\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 20)
    try:
        writer.write(head.encode() + b"content-type: application/json\r\nconnection: close\r\n\r\n" + data)
        status = await reader.readline()
        assert b" 200 " in status, status + await reader.read()
        while line := await reader.readline():
            if line.startswith(b"data: [DONE]"):
                answer.is_done = True
            elif line.startswith(b"data: "):
                event = json.loads(line[6:])
                answer.usage = event.get("usage") or answer.usage
                if event["choices"] and event["choices"][0]["delta"].get("content"):
                    answer.times.append(time.perf_counter())
    finally:
        writer.close()


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def text_of(server, n_tokens, seed):
    words = random.Random(seed).choices(WORDS, k=n_tokens)
    n = len(server.post("/tokenize", {"prompt": " ".join(words)})["tokens"])
    return " ".join(words[: n_tokens * n_tokens // n])


def prefix(server, report):
    """The same 8k prompt twice, then one that differs in its last turn."""
    begin = [{"role": "user", "content": text_of(server, LONG_TOKENS - 60, 1)},
             {"role": "assistant", "content": "I have read it."}]
    last = [begin + [{"role": "user", "content": x}] for x in ("What is it about?", "Who walks where, and why?")]
    bodies = [{"messages": x, "max_tokens": 4, "min_tokens": 4} for x in (last[0], last[0], last[1])]
    answers, replayed = [], []
    for body in bodies:
        before = server.metric("replayed_rows_total")
        answers.append(asyncio.run(stream(server, body)))
        replayed.append(server.metric("replayed_rows_total") - before)
    for name, answer, n_replayed in zip(("first", "the same again", "another last turn"), answers, replayed):
        assert answer.is_done and answer.usage["completion_tokens"] == 4
        n_prompt = answer.usage["prompt_tokens"]
        n_cached = answer.usage["prompt_tokens_details"]["cached_tokens"]
        report(f"{name:<20} {n_prompt:5} tokens, {n_cached:5} cached, {n_replayed:4.0f} rows run again, "
               f"first token after {answer.ttft:8.3f} s, {answers[0].ttft / answer.ttft:7.1f} times faster")
    return answers


async def _stall(server, long_text):
    """The answers of eight streams, when the prompt came and when it was computed, and its tokens."""
    body = {"messages": [{"role": "user", "content": "Go on."}], "max_tokens": 4000, "min_tokens": 4000}
    answers = [Answer() for _ in range(8)]
    tasks = [asyncio.create_task(stream(server, body | {"seed": i}, answer=x)) for i, x in enumerate(answers)]
    await asyncio.sleep(30)
    begin = time.perf_counter()
    long = await stream(server, {"messages": [{"role": "user", "content": long_text}], "max_tokens": 1})
    end = time.perf_counter()
    for task in tasks:
        assert not task.done()
        task.cancel()
    return answers, begin, end, long.usage["prompt_tokens"]


def stall(server, chunk, report):
    """Gaps of eight streams, before and while an 8k prompt is computed beside them."""
    answers, begin, end, n_prompt = asyncio.run(_stall(server, text_of(server, LONG_TOKENS, 2)))
    gaps = [(a, b) for x in answers for a, b in zip(x.times, x.times[1:])]
    quiet = [b - a for a, b in gaps if b < begin]
    busy = [b - a for a, b in gaps if a >= begin and b <= end]
    chunk_s = (end - begin) / (n_prompt / chunk)
    report(f"8 streams: p99 between tokens {percentile(quiet, 0.99):.3f} s alone, "
           f"{percentile(busy, 0.99):.3f} s beside a prompt of {n_prompt} tokens ({end - begin:.0f} s; a piece of "
           f"{chunk} in {chunk_s:.3f} s): {percentile(busy, 0.99) / chunk_s:.2f} pieces; {len(busy)} gaps")


async def _storm(server, n_cancelled):
    rng = random.Random(3)
    plan = [(rng.uniform(0, 60), None) for _ in range(100)]
    plan += [(rng.uniform(0, 60), rng.uniform(0, 1)) for _ in range(n_cancelled)]

    async def one(i, at, cancel_after):
        await asyncio.sleep(at)
        text = "".join(random.Random(i).choices("abcdefgh ", k=80))
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 100}
        return await stream(server, body, cancel_after)

    answers = await asyncio.gather(*(one(i, *x) for i, x in enumerate(plan)))
    return answers[:100]


def storm(server, report):
    """100 requests over a minute, with 900 more that are cancelled within a second, and without."""
    figures = {}
    for _ in range(2):  # A B A B
        for n_cancelled in (0, 900):
            survivors = asyncio.run(_storm(server, n_cancelled))
            bad = [x for x in survivors if not x.is_done or x.usage["completion_tokens"] != len(STORM_ANSWER)]
            assert not bad, [(x.is_done, x.usage, len(x.times)) for x in bad]
            gaps = [gap for x in survivors for gap in x.gaps]
            figures.setdefault(n_cancelled, []).append(
                (percentile(gaps, 0.99), percentile([x.ttft for x in survivors], 0.99)))
            time.sleep(2)
            assert server.metric("requests_running") == server.metric("requests_waiting") == 0
    for index, what in enumerate(("between tokens", "to the first token")):
        alone, beside = (statistics.median(x[index] for x in figures[n]) for n in (0, 900))
        report(f"storm: p99 {what} of 100 survivors {1e3 * alone:.1f} ms alone, {1e3 * beside:.1f} ms beside 900 "
               f"that are cancelled: {beside / alone:.2f} times; nothing is held behind it")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("tokenizer")
    parser.add_argument("--only", choices=["prefix", "stall", "storm"])
    parser.add_argument("--model", help="a mini-b that is there")
    options = parser.parse_args()
    binary = f"{options.build}/src/app/sluice"
    report = lambda line: print(line, flush=True)
    wanted = lambda name: options.only in (None, name)
    with tempfile.TemporaryDirectory() as folder:
        model = options.model or f"{folder}/mini-b"
        if not options.model and options.only != "storm":
            subprocess.run([binary, "make-model", "mini-b", "--out", model, "--tokenizer", options.tokenizer], check=True)
        if wanted("prefix"):
            with Server(binary, model, "--context", "16384", "--max-running", "16") as server:
                prefix(server, report)
        if wanted("stall"):
            with Server(binary, model, "--context", "16384", "--max-running", "16") as server:
                stall(server, 64, report)
        if wanted("storm"):
            sys.path.insert(0, str(REPOSITORY / "tests"))
            from harness import byte_tokenizer

            tiny = REPOSITORY / "tests/golden/tiny-a"
            n_tokens = json.loads((tiny / "config.json").read_text())["text_config"]["vocab_size"]
            tokenizer = Path(folder) / "tokenizer.json"
            tokenizer.write_text(byte_tokenizer.text(n_tokens), encoding="utf-8")
            # The model computes; what it samples is the script's, so that every answer is as long.
            script = Path(folder) / "script.jsonl"
            script.write_text(json.dumps({"out": "</think>" + STORM_ANSWER, "times": "always"}))
            options = ["--tokenizer", str(tokenizer), "--script", str(script), "--max-running", "64"]
            with Server(binary, str(tiny), *options) as server:
                storm(server, report)


if __name__ == "__main__":
    main()
