"""Open cases of the engine that show over a connection (spec open-cases.md §3.9, §3.15): scripts run through
the engine, so batching, KV memory, prefix cache and usage are the real ones."""

import json
import re
import socket
import threading

import openai
import httpx2
import pytest

from harness import metrics
from harness.raw_http import Connection, chat_request, once, request_bytes
from harness.server import REPOSITORY, Server, run_cli, wait_until

ENGINE = ["--script-engine"]
TINY = REPOSITORY / "tests/golden/tiny-a"
FUNCTION = {"name": "look", "description": "d", "parameters": {"type": "object", "properties": {}}}
CALL = (
    '\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name="look">\n'
    '<｜DSML｜ parameter name="where" string="true">' + "x" * 400 + "</｜DSML｜ parameter>\n"
    "</｜DSML｜ invoke>\n</｜DSML｜ calls>"
)


@pytest.mark.parametrize("how", ["close", "half-close", "reset"])
@pytest.mark.parametrize("where", ["queue", "prompt", "answer", "markup"])
def test_c81_a_client_that_goes_away_frees_its_place(where, how):
    """sglang#37833: "15,000 orphan outputs for one request"."""
    line = {  # none ends by itself while somebody waits for its end
        "queue": {"out": "x" * 20_000, "pace_ms": 5},
        "prompt": {"out": "x", "first_ms": 60_000},
        "answer": {"out": "x" * 20_000, "pace_ms": 5},
        "markup": {"out": "so" + CALL, "pace_ms": 100},  # held back until the parser knows
    }[where]
    options = ENGINE + ["--max-running", "1" if where == "queue" else "4", "--heartbeat", "100ms"]
    script = [line | {"times": "always"}]
    tools = {"tools": [{"type": "function", "function": FUNCTION}]} if where == "markup" else {}
    with Server(script=script, options=options) as server:
        with Connection(server.port) as first, Connection(server.port) as second:
            connections = [first, second] if where == "queue" else [first]
            for connection in connections:
                connection.send(chat_request("a" * 300, stream=True, **tools))
            pieces = connections[-1].pieces(connections[-1].read_head())
            for _ in range(3):
                next(pieces)
            if how == "half-close":
                connections[-1].sock.shutdown(socket.SHUT_WR)
            elif how == "reset":
                connections[-1].reset()
            else:
                connections[-1].close()
            if where == "queue":
                waiting = lambda: metrics.value(server, "requests_waiting")
                wait_until(lambda: waiting() == 0, 20, "nobody waits")
                assert metrics.running(server) == 1, "the other one is not touched"
                connections[0].close()
            metrics.wait_running(server, 0)


def test_c85_what_was_cached_is_the_same_number_everywhere():
    """LMCache#2574: the log implied hits and the counter said 0."""
    with Server(script=[{"out": "so", "times": "always"}], options=ENGINE) as server:
        told = 0
        for i in range(6):
            question = "q" * 500 + str(i % 3) * 100
            usage = json.loads(once(server.port, chat_request(question)).body)["usage"]
            cached = usage["prompt_tokens_details"]["cached_tokens"]
            assert cached == usage["prompt_cache_hit_tokens"] <= usage["prompt_tokens"]
            told += cached
        assert told > 5 * 450
        assert metrics.value(server, "prefix_cache_hits_total") == told
        assert metrics.value(server, "_tokens_total", 'kind="cached"') == told


def test_c90_a_responses_client_that_sends_its_items_back_is_found():
    """kelivo#832: no hit at all on the second turn."""
    script = [{"out": f"thought {i}</think>answer {i}" + CALL} for i in range(5)]
    with Server(script=script, options=ENGINE) as server:
        sdk = openai.OpenAI(
            base_url=f"http://127.0.0.1:{server.port}/v1",
            api_key="anything",
            max_retries=0,
            http_client=httpx2.Client(trust_env=False),
        )
        items, n_prompt = [{"role": "user", "content": "begin " * 50}], 0
        for turn in range(5):
            answer = sdk.responses.create(
                model="deepseek-flash",
                input=items,
                tools=[{"type": "function", **FUNCTION}],
                include=["reasoning.encrypted_content"],
            )
            assert [x.type for x in answer.output] == ["reasoning", "message", "function_call"]
            usage = answer.usage
            assert usage.input_tokens_details.cached_tokens >= n_prompt - 2, turn
            # All but the markers that follow the answer.
            n_prompt = usage.input_tokens + usage.output_tokens
            items += [x.model_dump(exclude_none=True) for x in answer.output]
            call = answer.output[2].call_id
            items.append({"type": "function_call_output", "call_id": call, "output": "seen"})


def test_c87_a_plan_is_printed_and_one_that_does_not_fit_is_refused_with_numbers():
    """lmstudio#2235: both pools filled and the machine swapped."""
    with Server(model=TINY, options=["--context", "512", "--max-running", "3"]) as server:
        wait_until(lambda: once(server.port, request_bytes("GET", "/ready")).status == 200, 30, "ready")
        text = server.stdout()
        for part in ("memory:", "weights", "KV", "windows", "workspace", "available"):
            assert part in text, text
    options = ["--kv-memory", "2000GiB", "--port", "0", "--admin-port", "0"]
    done = run_cli("serve", str(TINY), *options)
    assert done.returncode == 1
    for part in ("weights", "KV", "GB available", "--kv-memory", "--context", "--max-running"):
        assert part in done.stderr, done.stderr


def test_c88_what_does_not_fit_is_refused_before_a_weight_is_read(tmp_path):
    """ktransformers#2099: it failed after minutes of loading. Here the weights cannot even be read."""
    for name in ("config.json", "engram_token_map.json"):
        (tmp_path / name).write_bytes((TINY / name).read_bytes())
    # The header alone: everything behind it is a hole.
    whole = (TINY / "model.safetensors").read_bytes()
    n_header = 8 + int.from_bytes(whole[:8], "little")
    with open(tmp_path / "model.safetensors", "wb") as file:
        file.write(whole[:n_header])
        file.truncate(len(whole))
    done = run_cli("serve", str(tmp_path), "--kv-memory", "2000GiB", "--port", "0", "--admin-port", "0")
    assert done.returncode == 1 and "GB available" in done.stderr, done.stderr
    assert "listening" not in done.stdout


def test_c89_loading_says_what_it_reads_and_how_fast():
    """vllm#40821: "only a shard counter"."""
    with Server(model=TINY) as server:
        wait_until(lambda: "the model is loaded" in server.log(), 30, "the model")
        log = server.log()
    for part in ("the model is loaded", "bytes=", "took=", "file_system=", "available_bytes=", "mapped"):
        assert part in log, log


def test_c26_copies_of_one_request_run_their_prompt_once():
    """The other half of the case: copies of one request that run at the same time cost one prompt."""
    script = [{"out": "so", "first_ms": 200, "times": "always"}]
    with Server(script=script, options=ENGINE) as server:
        answers = []

        def ask():
            answers.append(once(server.port, chat_request("z" * 900)))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [x.status for x in answers] == [200] * 4
        cached = sorted(
            json.loads(x.body)["usage"]["prompt_tokens_details"]["cached_tokens"] for x in answers
        )
        assert cached[0] == 0 and cached[1] >= 900


def test_a_stream_tells_how_far_its_prompt_is_if_that_was_asked_for():
    script = [{"out": "</think>ok", "times": "always"}]
    with Server(script=script, options=[*ENGINE, "--prefill-chunk", "64"]) as server:

        def progress(**fields):
            text = "".join(fields) + "y" * 2000  # nothing of it is cached
            answer = once(server.port, chat_request(text, stream=True, **fields))
            frames = [f[len("data: ") :] for f in answer.body.decode().split("\n\n") if f]
            chunks = [json.loads(f) for f in frames if f != "[DONE]"]
            told = [c["prompt_progress"] for c in chunks if "prompt_progress" in c]
            assert all(c["choices"] == [] for c in chunks[: len(told)]), "before the first token"
            return told

        assert progress() == []
        told = progress(return_progress=True, stream_options={"include_usage": True})
        assert told, "a prompt of 2000 tokens takes 32 steps"
        n_done = [t["processed"] for t in told]
        assert n_done == sorted(set(n_done)) and n_done[-1] < told[0]["total"]
        assert {t["cache"] for t in told} == {told[0]["cache"]}
        assert once(server.port, chat_request(return_progress=1)).status == 400
        assert once(server.port, chat_request(return_progress=True)).status == 200, "no stream"


def test_a_trace_line_tells_hops_rows_and_where_cached_tokens_came_from():
    with Server(script=[{"out": "four", "times": "always"}], options=ENGINE + ["--trace"]) as server:
        for _ in range(2):
            assert once(server.port, chat_request("q" * 300)).status == 200
        wait_until(lambda: server.stderr().count(" trace ") == 2, 20, "two lines")
        lines = [x for x in server.stderr().splitlines() if " trace " in x]
    fields = [dict(re.findall(r"(\w+)=(\"[^\"]*\"|\S+)", x)) for x in lines]
    for zone in ("http.read", "codec.decode", "route", "plan", "run", "forward", "codec.encode"):
        assert zone + "=" in fields[0]["zones"], fields[0]
    n_prompt = 300 + 4  # the marks of the user, the assistant and thinking
    assert int(fields[0]["rows"]) >= n_prompt + 4 and fields[0]["cached_memory"] == "0"
    assert int(fields[1]["cached_memory"]) >= n_prompt - 2 and int(fields[1]["rows"]) <= 8
    assert all(x["end"] == "finished" and x["preempted"] == x["cached_store"] == "0" for x in fields)
