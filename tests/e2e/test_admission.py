"""Who waits, who goes first and who is refused: the queue of the router through the real binary."""

import collections
import json
import threading
import time

import pytest

from harness import metrics
from harness.raw_http import Connection, chat_request, once, request_bytes
from harness.server import REPOSITORY, Server, wait_until

OFF = {"thinking": {"type": "disabled"}}
HANG = {"when": {"last": "[hang]"}, "out": "x" * 10, "hang_after": 3, "times": "always"}
SLOW = {"out": "ab", "pace_ms": 100, "times": "always"}
MIB = 1 << 20
COUNTS = {"prompt", "completion", "cached", "ttft_ms", "total_ms", "class", "status"}
KV_MEMORY = "40KiB"  # of the tiny model: six blocks


def key(name):
    return [("Authorization", f"Bearer key-of-{name}-1")]


@pytest.fixture
def keys_file(tmp_path):
    path = tmp_path / "keys"
    path.write_text(
        "hog key-of-hog-1\n"
        "guest key-of-guest-1\n"
        "desk key-of-desk-1 class=interactive\n"
        "night key-of-night-1 class=bulk\n"
    )
    return ["--api-keys-file", path]


def hang(server, n, **more):
    """That many streams that hold a slot each until they are closed."""
    held = []
    for _ in range(n):
        c = Connection(server.port)
        c.send(chat_request("[hang]", stream=True, **OFF, **more))
        c.read_head()
        held.append(c)
    metrics.wait_running(server, n)
    return held


def wait_waiting(server, n):
    wait_until(
        lambda: metrics.value(server, "requests_waiting") == n, 20, f"requests_waiting = {n}"
    )


class Load:
    """Clients that ask again and again without a pause, and what they were answered."""

    def __init__(self, server, seconds):
        self._server, self._end = server, time.monotonic() + seconds
        self._threads = []
        self.answers = collections.defaultdict(collections.Counter)  # (status, code) by client
        self.without_retry = []

    def add(self, name, n, **request):
        for _ in range(n):
            thread = threading.Thread(target=self._run, args=(name, request))
            thread.start()
            self._threads.append(thread)

    def _run(self, name, request):
        while time.monotonic() < self._end:
            response = once(self._server.port, chat_request(**OFF, **request))
            code = None if response.status == 200 else response.error()["code"]
            self.answers[name][(response.status, code)] += 1
            if response.status != 200 and int(response.header("retry-after") or 0) < 1:
                self.without_retry.append(response)

    def watch(self, see):
        """Calls `see` until the load is over."""
        while time.monotonic() < self._end:
            see()
            time.sleep(0.02)
        for thread in self._threads:
            thread.join()


def test_c50_a_load_far_above_what_can_be_served_stays_bounded(keys_file):
    """vllm#18826: under 10 times the load the queue grew until the memory was full. Two slots of 200 ms are ten answers
    a second; 24 clients without a pause offer more than ten times that.
    """
    options = ["--max-running", "2", "--max-waiting", "8", *keys_file]
    with Server(script=[SLOW], options=options) as server:
        once(server.port, chat_request(headers=key("hog"), **OFF))
        rss_before, waiting_max = server.rss_bytes(), 0

        def see():
            nonlocal waiting_max
            waiting_max = max(waiting_max, metrics.value(server, "requests_waiting"))

        load = Load(server, seconds=3)
        load.add("hog", 24, headers=key("hog"))
        load.add("guest", 1, headers=key("guest"))
        load.watch(see)

        assert load.without_retry == []
        refusals = {(429, "key_queue_full"), (503, "queue_full")}
        assert set(load.answers["hog"]) - refusals == {(200, None)}
        assert set(load.answers["guest"]) == {(200, None)}, "its place is not the other key's"
        n_served = sum(answers[(200, None)] for answers in load.answers.values())
        n_refused = sum(load.answers["hog"][refusal] for refusal in refusals)
        assert n_refused >= 3 * n_served, load.answers
        assert n_served >= 10, "and the slots were in use"
        # A guest that asks again at once gets every second turn.
        assert load.answers["guest"][(200, None)] >= n_served / 10, load.answers
        assert waiting_max <= 8 + 2, "those included that are about to begin"
        if not server.is_sanitized():
            assert server.rss_bytes() - rss_before < 64 * MIB
        for _, reason in refusals:
            n = sum(load.answers["hog"][r] for r in refusals if r[1] == reason)
            assert metrics.value(server, "admission_refusals_total", f'"{reason}"') == n


def test_c50_a_full_queue_says_which_limit_it_was_and_when_to_come_back():
    options = ["--max-running", "1", "--max-waiting", "2", "--max-waiting-tokens", "1000"]
    with Server(script=[HANG], options=options) as server:
        held = hang(server, 1)
        waiting = []

        def wait_with(text):
            c = Connection(server.port)
            c.send(chat_request(f"[hang] {text}", stream=True, **OFF))
            waiting.append(c)
            wait_waiting(server, len(waiting))

        def refusal(text, path="/v1/chat/completions", **more):
            response = once(server.port, chat_request(text, path=path, **more))
            assert 1 <= int(response.header("retry-after")) <= 75
            return response

        wait_with("a")
        response = refusal("x" * 900, **OFF)
        assert response.status == 503 and response.error()["code"] == "queue_tokens_full"
        assert response.error()["type"] == "overloaded_error"
        assert "max-waiting-tokens" in response.error()["message"]
        wait_with("b")
        response = refusal("c", **OFF)
        assert response.status == 503 and response.error()["code"] == "queue_full"
        response = refusal("c", path="/v1/messages", max_tokens=5)
        assert response.status == 529 and response.anthropic_error()["code"] == "queue_full"
        assert response.anthropic_error()["type"] == "overloaded_error"
        for c in waiting:
            c.close()
        wait_waiting(server, 0)
        assert metrics.value(server, "waiting_tokens") == 0
        held[0].close()


def test_classes_go_first_by_key_and_by_tier(keys_file):
    """One slot; what waits is let through by class, and the answer says what it was."""
    answers, order = {}, []
    with Server(script=[HANG, {"out": "ok", "first_ms": 100, "times": "always"}], options=[
        "--max-running", "1", *keys_file,
    ]) as server:  # fmt: skip
        held = hang(server, 1, headers=key("hog"))

        def ask(name, path, **request):
            body = json.dumps({"model": "deepseek-flash", **request}).encode()
            head = [("Content-Type", "application/json"), *key(name)]
            response = once(server.port, request_bytes("POST", path, head, body))
            order.append(name)
            answers[name] = response.json()

        chat = {"messages": [{"role": "user", "content": "hi"}], **OFF}
        asked = [
            ("night", "/v1/chat/completions", {**chat, "service_tier": "priority"}),
            ("hog", "/v1/responses", {"input": "hi", "service_tier": "flex"}),
            ("guest", "/v1/responses", {"input": "hi", "service_tier": "priority"}),
            ("desk", "/v1/chat/completions", {**chat, "service_tier": "auto"}),
        ]
        threads = []
        for n, (name, path, request) in enumerate(asked):
            thread = threading.Thread(target=ask, args=(name, path), kwargs=request)
            thread.start()
            threads.append(thread)
            wait_waiting(server, n + 1)
        held[0].close()
        for thread in threads:
            thread.join()
        for name, n in (("interactive", 1), ("bulk", 2)):
            assert metrics.value(server, "requests_dispatched_total", f'"{name}"') == n
    assert order[:2] == ["desk", "guest"] and set(order[2:]) == {"night", "hog"}, order
    tiers = {name: answer["service_tier"] for name, answer in answers.items()}
    assert tiers == {"night": "flex", "hog": "flex", "guest": "default", "desk": "priority"}


def records(server):
    """By request id: the ends of requests in the log."""
    by_id = collections.defaultdict(list)
    for line in server.stderr().splitlines():
        if "request done" in line:
            record = json.loads(line)
            by_id[record["request"]].append(record)
    return by_id


def test_c51_each_request_leaves_one_record_however_it_ends():
    """syv-ai#94: a request whose client went away left no line anywhere."""
    script = [
        HANG,
        {"when": {"last": "[fail]"}, "out": "abc", "fail_after": 1, "times": "always"},
        {"out": "abc", "times": "always"},
    ]
    options = ["--max-running", "1", "--log-format", "json", "--request-timeout", "3s"]
    ends = {}
    with Server(script=script, options=options) as server:

        def ask(text, end, **more):
            response = once(server.port, chat_request(text, **OFF, **more))
            ends[response.header("x-request-id")] = end
            return response

        def leave(text, running):
            c = Connection(server.port)
            c.send(chat_request(text, stream=True, **OFF))
            ends[c.read_head().header("x-request-id")] = "aborted-by-client"
            if running:
                metrics.wait_running(server, 1)
            return c

        ask("hi", "finished")
        ask("hi", "finished", stream=True)
        ask("hi", "rejected", temperature=9)
        ask("[fail]", "failed")
        running = leave("[hang]", running=True)
        waiting = leave("[hang]", running=False)
        wait_waiting(server, 1)
        waiting.close()
        wait_waiting(server, 0)
        running.close()
        metrics.wait_running(server, 0)
        ask("[hang]", "aborted-by-server")
        wait_until(lambda: len(records(server)) >= len(ends), 20, "the records")
        assert metrics.value(server, "requests_received_total") == len(ends)
        found = records(server)
    assert {name: len(lines) for name, lines in found.items()} == {name: 1 for name in ends}
    assert {name: lines[0]["end"] for name, lines in found.items()} == ends
    for lines in found.values():
        assert COUNTS <= set(lines[0])
    finished = [lines[0] for lines in found.values() if lines[0]["end"] == "finished"]
    assert [record["completion"] for record in finished] == [3, 3]


def ready(server):
    return once(server.port, request_bytes("GET", "/ready")).status == 200


def test_c84_metrics_add_up_whatever_became_of_the_requests():
    """vllm#8115: 8,060 first tokens were counted for 3,918 requests, some of them preempted. A pool with room for one
    long answer and a bit; a third of the clients go away behind their first token.
    """
    model = REPOSITORY / "tests/golden/tiny-a"
    options = ["--max-running", "4", "--threads", "1", "--context", "320", "--kv-memory", KV_MEMORY]
    n_at_once = 24
    with Server(model=model, options=options) as server:
        wait_until(lambda: ready(server), 30, "the model")

        def ask(i):
            text = "word " * (i % 6 * 6)
            with Connection(server.port) as c:
                c.send(chat_request(text, max_tokens=80, min_tokens=40, stream=i % 2 == 0, **OFF))
                head = c.read_head()
                assert head.status == 200
                for piece in c.pieces(head):
                    if i % 6 == 0 and b'"content":"' in piece:
                        return

        finished = "requests_finished_total"
        n_asked = 0

        def everything_happened():
            return metrics.value(server, finished, 'cancelled"') > 0 and metrics.value(server, "preemptions_total") > 0

        # A client that is slow to go away finds its answer whole: asked again, up to 20 times.
        while not n_asked or not everything_happened() and n_asked < 20 * n_at_once:
            threads = [threading.Thread(target=ask, args=(i,)) for i in range(n_at_once)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            n_asked += n_at_once
            wait_until(lambda: metrics.value(server, finished) == n_asked, 20, "all ends")
        assert everything_happened()
        assert metrics.value(server, "requests_received_total") == n_asked
        assert metrics.value(server, "ttft_seconds_count") == n_asked, "all have min_tokens"
        assert metrics.value(server, "e2e_seconds_count") == n_asked
        for gauge in ("requests_running", "requests_waiting", "waiting_tokens"):
            assert metrics.value(server, gauge) == 0
