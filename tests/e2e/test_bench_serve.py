"""`sluice bench serve` against the real server: what it measures is what the script does."""

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from harness import metrics
from harness.server import Server, binary, environment, run_cli, wait_until

# How much later than scripted things may be on a busy machine, in milliseconds.
SLACK_MS = 500

TEN_EVENTS = {"times": "always", "out": "</think>0123456789", "first_ms": 120, "pace_ms": 20}


def bench(server, *options, code=0, port=None):
    """The report of a run as an object."""
    url = f"http://127.0.0.1:{port or server.port}"
    done = run_cli("bench", "serve", "--url", url, "--json", *map(str, options), timeout=60)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout)


def test_measured_times_are_the_scripted_ones():
    with Server(script=[TEN_EVENTS], options=["--no-default-thinking"]) as server:
        report = bench(server, "--requests", 6, "--concurrency", 3, "--input-tokens", 20)
    assert report["sent"] == report["done"] == 6 and report["not_right"] == 0, report
    assert report["ttft_ms"]["count"] == 6
    # The pause before the first event comes on top of the pause before the answer.
    assert 120 * 0.99 <= report["ttft_ms"]["p50"] <= 140 + SLACK_MS, report
    assert report["itl_ms"]["count"] == 6 * 9 and report["output_events"] == 60
    assert 20 * 0.9 <= report["itl_ms"]["mean"] <= 20 + SLACK_MS / 9, report
    assert 300 * 0.99 <= report["e2e_ms"]["p50"] <= 320 + SLACK_MS, report
    assert report["e2e_ms"]["p50"] - report["ttft_ms"]["p50"] >= 9 * 20 * 0.9, report
    assert report["output_tokens"] in (60, 66), report  # the end token may count
    assert report["prompt_tokens"] > 6 * 20 and report["cached_tokens"] == 0


@pytest.mark.parametrize("api", ["chat", "messages", "responses"])
def test_every_api(api):
    script = [{"times": "always", "out": "hm</think>ok", "when": {"api": api}}]
    with Server(script=script) as server:
        report = bench(server, "--api", api, "--requests", 3)
    assert report["done"] == 3 and report["output_events"] >= 3 * 4, report
    assert report["prompt_tokens"] > 0 and report["output_tokens"] >= 3 * 4, report


def test_report_for_people():
    with Server(script=[TEN_EVENTS]) as server:
        done = run_cli(
            *["bench", "serve", "--url", f"http://127.0.0.1:{server.port}/", "--requests", "2"],
            *["--slo-ttft", "10s", "--slo-itl", "1ms"],
        )
    assert done.returncode == 0 and done.stderr == "", done
    for word in ("2 sent, 2 done", "time to first token", "between events", "whole answer"):
        assert word in done.stdout, done.stdout
    assert "goodput: 0.00 requests/s, 0.0 % of all" in done.stdout, done.stdout


def test_closed_loop_keeps_that_many_in_flight():
    line = {"times": "always", "out": "</think>a", "first_ms": 500}
    with Server(script=[line]) as server:
        start = time.monotonic()
        report = bench(server, "--requests", 12, "--concurrency", 4)
        took = time.monotonic() - start
    assert report["done"] == 12
    # Three rounds of four, one after the other.
    assert 1.5 <= report["elapsed_s"] <= took, report
    assert report["elapsed_s"] < 12 * 0.5, report


def test_duration_ends_a_closed_loop():
    line = {"times": "always", "out": "</think>a", "first_ms": 50}
    with Server(script=[line]) as server:
        report = bench(server, "--duration", "500ms", "--concurrency", 2)
    assert 2 <= report["done"] <= 20 and report["elapsed_s"] >= 0.45, report


def test_open_loop_counts_the_time_that_requests_wait_for_a_stalled_server():
    """Coordinated omission: one stall of a second is in the latencies of all that were due
    meanwhile, although each of them was answered at once when it was sent at last."""
    script = [
        {"out": "</think>a", "first_ms": 1000},
        {"times": "always", "out": "</think>a"},
    ]
    open_loop = ["--rate", 20, "--arrivals", "constant", "--max-in-flight", 1]
    with Server(script=script) as server:
        report = bench(server, *open_loop, "--requests", 20)
    assert report["done"] == 20 and report["dropped"] == 0, report
    assert report["backlog_max"] >= 15, report
    # Due every 50 ms while the first one took 1 s: on average they waited about half of that.
    assert report["ttft_ms"]["p50"] >= 400 and report["lateness_ms"]["max"] >= 900, report
    # The same server and number of requests, asked one after the other, hides the stall.
    with Server(script=script) as server:
        closed = bench(server, "--requests", 20)
    assert closed["ttft_ms"]["p50"] < 200 and closed["ttft_ms"]["max"] >= 990, closed


def test_open_loop_keeps_its_rate():
    line = {"times": "always", "out": "</think>a", "first_ms": 300}
    with Server(script=[line]) as server:
        report = bench(server, "--rate", 40, "--requests", 40, "--arrivals", "constant")
        poisson = bench(server, "--rate", 40, "--requests", 40, "--seed", 5)
    # The last is due after 1 s and takes 0.3 s, however long the others take.
    assert 1.3 <= report["elapsed_s"] <= 1.3 + 3 * SLACK_MS / 1000, report
    assert report["ttft_ms"]["p50"] < 300 + SLACK_MS, report
    assert poisson["done"] == 40


def test_a_full_backlog_is_said():
    line = {"times": "always", "out": "</think>a", "first_ms": 400}
    few = ["--max-in-flight", 1, "--max-backlog", 2, "--arrivals", "constant"]
    with Server(script=[line]) as server:
        report = bench(server, "--rate", 50, "--requests", 10, *few, code=1)
        assert report["done"] == 3 and report["dropped"] == 7, report
        done = run_cli(
            *["bench", "serve", "--url", f"http://127.0.0.1:{server.port}", "--rate", "50"],
            *["--requests", "10", *map(str, few)],
        )
    assert done.returncode == 1 and "7 were due and never sent" in done.stdout, done.stdout


def test_refusals_and_failures_are_counted_by_kind():
    script = [
        {"refuse": "rate_limit", "times": 2},
        {"refuse": "overloaded"},
        {"out": "</think>abcdef", "fail_after": 3},
        {"times": "always", "out": "</think>ok"},
    ]
    with Server(script=script) as server:
        report = bench(server, "--requests", 8, code=1)
    assert report["refused"] == {"429": 2, "503": 1}, report
    assert report["failed"] == {"error": 1} and report["not_right"] == 1, report
    assert report["done"] == 4 and report["ttft_ms"]["count"] == 4, report


def test_refusals_alone_are_no_failure():
    with Server(script=[{"refuse": "rate_limit"}, "</think>ok"]) as server:
        report = bench(server, "--requests", 2, "--slo-ttft", "10s")
    assert report["refused"] == {"429": 1} and report["good_share"] == 0.5, report


def test_a_timeout_is_counted():
    with Server(script=[{"out": "</think>abc", "hang_after": 1}, "</think>ok"]) as server:
        report = bench(server, "--requests", 2, "--timeout", "300ms", code=1)
    assert report["failed"] == {"timeout": 1} and report["done"] == 1, report


def test_a_server_that_dies_cuts_streams_and_refuses_connections():
    script = [{"out": "</think>abcdef", "die_after": 3}]
    with Server(script=script, expect_exit=None) as server:
        report = bench(server, "--requests", 4, code=1)
    # What it had accepted while it died is cut, too.
    failed = report["failed"]
    assert set(failed) == {"cut", "connect"} and sum(failed.values()) == 4, report


class Canned:
    """A server that answers every request of a connection with the same bytes, then closes."""

    def __init__(self, *answers):
        self._answers = answers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        for answer in self._answers:
            client, _ = self._listener.accept()
            with client:
                data = b""
                while b"\r\n\r\n" not in data:
                    data += client.recv(65536)
                head, body = data.split(b"\r\n\r\n", 1)
                size = int(re.search(rb"Content-Length: (\d+)", head)[1])
                while len(body) < size:
                    body += client.recv(65536)
                client.sendall(answer)
        self._listener.close()


EVENTS = (
    b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":1}}\n\n'
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


def whole(body):
    return HEAD + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body


def test_answers_that_are_not_right_are_counted():
    server = Canned(
        whole(EVENTS + b"data: [DONE]\n\n"),
        whole(EVENTS),  # no terminal event
        whole(EVENTS[: EVENTS.index(b"\n\n") + 2] * 2 + EVENTS + b"data: [DONE]\n\n"),
        whole(EVENTS.replace(b"data: {", b"data: ", 1)),
        HEAD + b"Content-Length: 500\r\n\r\n" + EVENTS,  # cut
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
        b"SSH-2.0-not-http\r\n\r\n",
    )
    report = bench(None, "--requests", 7, code=1, port=server.port)
    assert report["done"] == 1 and report["failed"] == {"cut": 1, "malformed": 5}, report
    assert report["not_right"] == 6


def test_a_trace_sends_the_earlier_answers_back(tmp_path):
    call = (
        "t1</think>\n\n<｜DSML｜ calls>\n"
        '<｜DSML｜ invoke name="look">\n'
        '<｜DSML｜ parameter name="at" string="true">sky</｜DSML｜ parameter>\n'
        "</｜DSML｜ invoke>\n</｜DSML｜ calls>"
    )
    tool = {
        "type": "function",
        "function": {
            "name": "look",
            "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
        },
    }
    # Each line fits only a prompt that holds what was said before.
    script = [
        {"when": {"last": "first question"}, "out": call},
        {"when": {"last": "it is blue"}, "out": "t2</think>The sky is blue-ish."},
        {"when": {"last": "and now", "prompt": "blue-ish"}, "out": "t3</think>The end."},
    ]
    turns = [
        {"user": "first question"},
        {"tool_result": "it is blue", "think_ms": 200},
        {"user": "and now", "think_ms": 100, "max_tokens": 100},
    ]
    trace = tmp_path / "trace.jsonl"
    trace.write_text(json.dumps({"system": "brief", "tools": [tool], "turns": turns}) + "\n")
    with Server(script=script, options=["--strict"]) as server:
        report = bench(server, "--trace", trace)
    assert report["sent"] == report["done"] == 3 and report["turns_not_sent"] == 0, report
    # t1, t2 and t3 with their texts: all three lines were taken, none was exhausted.
    n_text = len("t1t2The sky is blue-ish.t3The end.")
    assert report["output_events"] >= n_text and report["output_tokens"] < n_text + len(call) + 20
    assert report["elapsed_s"] >= 0.3, report
    # Thinking of the user is no latency.
    assert report["e2e_ms"]["max"] < 1000, report


@pytest.mark.parametrize("api", ["messages", "responses"])
def test_a_trace_over_the_other_apis(tmp_path, api):
    script = [
        {"when": {"last": "one"}, "out": "t1</think>alpha"},
        {"when": {"last": "two", "prompt": "alpha"}, "out": "t2</think>beta"},
        {"when": {"last": "three", "prompt": "beta"}, "out": "t3</think>gamma"},
        {"refuse": "internal", "times": "always"},
    ]
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"system":"s","turns":[{"user":"one"},{"user":"two"},{"user":"three"}]}\n')
    with Server(script=script, options=["--strict"]) as server:
        report = bench(server, "--trace", trace, "--api", api)
    assert report["done"] == 3 and report["refused"] == {}, report


def test_conversations_run_beside_each_other_and_end_where_one_is_not_answered(tmp_path):
    script = [
        {"when": {"last": "bad"}, "refuse": "rate_limit"},
        {"times": "always", "out": "</think>ok", "first_ms": 500},
    ]
    lines = [{"turns": [{"user": "good"}, {"user": "good"}]}, {"turns": [{"user": "bad"}] * 3}]
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps(line) + "\n" for line in [*lines, lines[0]]))
    with Server(script=script) as server:
        report = bench(server, "--trace", trace, "--concurrency", 3)
    assert report["done"] == 4 and report["refused"] == {"429": 1}, report
    assert report["turns_not_sent"] == 2 and report["elapsed_s"] < 4 * 0.5, report


def test_requests_of_a_file_are_sent_in_turn(tmp_path):
    bodies = [
        {"model": "deepseek-flash", "messages": [{"role": "user", "content": word}]}
        for word in ("red", "green")
    ]
    path = tmp_path / "requests.jsonl"
    path.write_text("".join(json.dumps(body) + "\n" for body in bodies))
    script = [
        {"when": {"last": "red"}, "times": 2, "out": "</think>r"},
        {"when": {"last": "green"}, "times": 1, "out": "</think>g"},
        {"times": "always", "refuse": "internal"},
    ]
    with Server(script=script) as server:
        once = bench(server, "--requests-file", path)
        assert once["done"] == 2
        again = bench(server, "--requests-file", path, "--requests", 2, code=0)
    assert again["done"] == 1 and again["refused"] == {"500": 1}, again


def test_keys(tmp_path):
    with Server(script=[{"times": "always", "out": "</think>a"}], options=["--api-key", "key-of-bench-1"]) as s:
        assert bench(s, "--requests", 1, code=1)["refused"] == {"401": 1}
        assert bench(s, "--requests", 1, "--api-key", "key-of-bench-1")["done"] == 1
        assert bench(s, "--requests", 1, "--api-key", "key-of-bench-1", "--api", "messages")["done"] == 1
        url = f"http://127.0.0.1:{s.port}"
        # A variable of the server is nobody's business here.
        env = {"SLUICE_API_KEY": "key-of-bench-1", "SLUICE_MAX_BODY": "1MiB"}
        assert run_cli("bench", "serve", "--url", url, "--requests", "1", env=env).returncode == 0


def test_interrupt_reports_what_was_measured():
    line = {"times": "always", "out": "</think>a", "first_ms": 100}
    with Server(script=[line]) as server:
        url = f"http://127.0.0.1:{server.port}"
        process = subprocess.Popen(
            [binary(), "bench", "serve", "--url", url, "--duration", "60s", "--json"],
            stdout=subprocess.PIPE,
            env=environment(),
        )
        wait_until(
            lambda: metrics.value(server, "requests_finished_total") >= 3, 20, "three answers"
        )
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=10)
        assert process.returncode == 0
        report = json.loads(out)
        assert report["stopped"] and report["done"] >= 2 and report["given_up"] <= 1, report
        assert report["elapsed_s"] < 10


def test_progress_is_shown_on_a_terminal_only():
    line = {"times": "always", "out": "</think>a", "first_ms": 400}
    with Server(script=[line]) as server:
        ours, theirs = os.openpty()
        done = subprocess.run(
            [binary(), "bench", "serve", "--url", f"http://127.0.0.1:{server.port}"]
            + ["--requests", "4", "--json"],
            stdout=subprocess.PIPE,
            stderr=theirs,
            env=environment(),
            timeout=30,
            check=False,
        )
        os.close(theirs)
        shown = os.read(ours, 65536).decode()
        os.close(ours)
    assert done.returncode == 0 and json.loads(done.stdout)["done"] == 4
    assert re.search(r"\r\d\.\d s: [1-4] sent, [0-3] done, 0 refused, 0 failed, 1 in flight", shown), shown


def test_a_closed_loop_does_not_storm_a_server_that_is_not_there():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    report = bench(None, "--duration", "500ms", code=1, port=port)
    assert 2 <= report["failed"]["connect"] <= 6, report


def test_an_idle_connection_that_the_server_closed_is_opened_again(tmp_path):
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"turns":[{"user":"a"},{"user":"b","think_ms":1800}]}\n')
    with Server(
        script=[{"times": "always", "out": "</think>a"}], options=["--idle-timeout", "1s"]
    ) as server:
        report = bench(server, "--trace", trace)
    assert report["done"] == 2 and report["reconnects"] == 1, report


@pytest.mark.parametrize(
    "arguments,words",
    [
        ([], ["serve"]),
        (["server"], ["server"]),
        (["serve"], ["--url"]),
        (["serve", "--url", "ftp://x"], ["ftp://x", "http://"]),
        (["serve", "--url", "https://x:1"], ["plain HTTP"]),
        (["serve", "--url", "http://127.0.0.1:70000"], ["70000"]),
        (["serve", "--url", "http://127.0.0.1:1", "--concurrency", "0"], ["concurrency"]),
        (["serve", "--url", "http://127.0.0.1:1", "--rate", "-1"], ["rate"]),
        (["serve", "--url", "http://127.0.0.1:1", "--rate", "5", "--concurrency", "2"], ["--rate"]),
        (["serve", "--url", "http://127.0.0.1:1", "--shared-prefix", "2"], ["shared-prefix"]),
        (["serve", "--url", "http://127.0.0.1:1", "--api", "smoke"], ["smoke"]),
        (["serve", "--url", "http://127.0.0.1:1", "--concurency", "2"], ["concurrency"]),
        (["serve", "--url", "http://127.0.0.1:1", "--trace", "none.jsonl"], ["none.jsonl"]),
        (
            ["serve", "--url", "http://127.0.0.1:1", "--trace", "a", "--requests-file", "b"],
            ["only one"],
        ),
    ],
)
def test_wrong_usage(arguments, words):
    done = run_cli("bench", *arguments)
    assert done.returncode == 2 and done.stdout == "", done
    for word in words:
        assert word in done.stderr, done.stderr


def test_a_bad_line_of_a_trace_is_named(tmp_path):
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"turns":[{"user":"a"}]}\n{"turns":[{"usr":"a"}]}\n')
    done = run_cli("bench", "serve", "--url", "http://127.0.0.1:1", "--trace", str(trace))
    assert done.returncode == 2 and "line 2: turn 1: unknown key usr" in done.stderr, done.stderr


def test_help():
    done = run_cli("bench", "--help")
    assert done.returncode == 0 and "--concurrency" in done.stdout and "docs/bench.md" in done.stdout
    for default in ("chat, messages, responses", "default 512", "0 to 1", "default 10m"):
        assert default in " ".join(done.stdout.split()), done.stdout
    assert "bench" in run_cli("--help").stdout
