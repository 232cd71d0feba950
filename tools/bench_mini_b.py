#!/usr/bin/env python3
"""What a service does with a real model, measured through its API: `./dev bench mini-b`.

1. An 8k prompt, the same one again, and one that differs in its last turn (mini-b).
2. Eight streams while an 8k prompt comes in (mini-b).
3. 1,000 requests of which 900 are cancelled at random moments (a model that costs nothing, and tiny-a).

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
               f"first token after {answer.ttft:8.3f} s, {answers[0].ttft / answer.ttft:7.1f} times faster (wanted for the second: 50)")
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


def piece_seconds(server, chunk):
    """How long a piece of a prompt takes by itself: one whose rows go through every layer."""
    times = []
    for i in range(7):
        ids = [100 + (i * 997 + 31 * x) % 3000 for x in range(chunk)]
        begin = time.perf_counter()
        server.post("/v1/completions", {"model": "deepseek-flash", "prompt": ids, "max_tokens": 1})
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def stall(server, chunk, report):
    """Gaps of eight streams, before and while an 8k prompt is computed beside them."""
    chunk_s = piece_seconds(server, chunk)
    answers, begin, end, n_prompt = asyncio.run(_stall(server, text_of(server, LONG_TOKENS, 2)))
    gaps = [(a, b) for x in answers for a, b in zip(x.times, x.times[1:])]
    quiet = [b - a for a, b in gaps if b < begin]
    busy = [b - a for a, b in gaps if a >= begin and b <= end]
    report(f"8 streams: p99 between tokens {percentile(quiet, 0.99):.3f} s alone, "
           f"{percentile(busy, 0.99):.3f} s beside a prompt of {n_prompt} tokens ({end - begin:.0f} s), "
           f"of which a piece of {chunk} takes {chunk_s:.3f} s alone: {percentile(busy, 0.99) / chunk_s:.2f} "
           f"pieces (wanted: at most 2); {len(busy)} gaps")


async def _storm(server, seconds, n_others, cancels):
    """100 requests spread over some seconds, and others beside them, which may be cancelled on their way."""
    rng = random.Random(3)
    plan = [(rng.uniform(0, seconds), None) for _ in range(100)]
    plan += [(rng.uniform(0, seconds), rng.uniform(0, 1) if cancels else None) for _ in range(n_others)]

    async def one(i, at, cancel_after):
        await asyncio.sleep(at)
        text = "".join(random.Random(i).choices("abcdefgh ", k=16))
        return await stream(server, {"messages": [{"role": "user", "content": text}], "max_tokens": 100}, cancel_after)

    answers = await asyncio.gather(*(one(i, *x) for i, x in enumerate(plan)))
    return answers[:100]


def storm(server, seconds, rounds, kinds, report):
    """99th percentiles of 100 requests in runs of several kinds: A B A B."""
    figures = {}
    for _ in range(rounds):
        for name, n_others, cancels in kinds:
            survivors = asyncio.run(_storm(server, seconds, n_others, cancels))
            bad = [x for x in survivors if not x.is_done or x.usage["completion_tokens"] != len(STORM_ANSWER)]
            assert not bad, [(x.is_done, x.usage, len(x.times)) for x in bad]
            gaps = [gap for x in survivors for gap in x.gaps]
            figures.setdefault(name, []).append(
                (percentile(gaps, 0.99), percentile([x.ttft for x in survivors], 0.99)))
            time.sleep(2)
            for held in ("requests_running", "requests_waiting", "kv_blocks_in_use"):
                assert server.metric(held) == 0, held
    for index, what in enumerate(("between tokens", "to the first token")):
        medians = {name: 1e3 * statistics.median(x[index] for x in figures[name]) for name, _, _ in kinds}
        first, last = (medians[kinds[i][0]] for i in (0, -1))
        report(f"  p99 {what} of 100 survivors: " + ", ".join(f"{n} {x:.1f} ms" for n, x in medians.items())
               + f": {last / first:.2f} times (wanted: at most 2)")


def storms(binary, folder, rounds, report):
    """1,000 requests of which 900 are cancelled within a second, and nothing is held behind it.

    First where the model costs nothing, so that what is measured is what cancels cost the others. Then on
    tiny-a, beside a run in which the same 900 are not cancelled: they compute, and so does a cancelled one until it is.
    """
    sys.path.insert(0, str(REPOSITORY / "tests"))
    from harness import byte_tokenizer

    tiny = REPOSITORY / "tests/golden/tiny-a"
    n_tokens = json.loads((tiny / "config.json").read_text())["text_config"]["vocab_size"]
    tokenizer, script = Path(folder) / "tokenizer.json", Path(folder) / "script.jsonl"
    tokenizer.write_text(byte_tokenizer.text(n_tokens), encoding="utf-8")
    # What is sampled is the script's, so that every answer is as long. One core is the clients'.
    line = {"out": "</think>" + STORM_ANSWER, "times": "always"}
    options = ["--tokenizer", str(tokenizer), "--script", str(script), "--max-running", "256", "--threads", "1"]
    script.write_text(json.dumps(line | {"pace_ms": 20}))
    report("storm over 20 s, a model that costs nothing, a token every 20 ms")
    with Server(binary, *options, "--script-engine") as server:
        storm(server, 20, rounds, (("alone", 0, False), ("beside 900 cancelled", 900, True)), report)
    script.write_text(json.dumps(line))
    report("storm over 60 s, tiny-a")
    with Server(binary, str(tiny), *options) as server:
        kinds = (("beside 900", 900, False), ("beside 900 cancelled", 900, True))
        storm(server, 60, rounds, kinds, report)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("tokenizer")
    parser.add_argument("--only", choices=["prefix", "stall", "storm"])
    parser.add_argument("--rounds", type=int, default=2, help="of the storm")
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
            storms(binary, folder, options.rounds, report)


if __name__ == "__main__":
    main()
