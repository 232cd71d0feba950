"""The parts of the page that know no document, in the browser's engine, one by one."""

import json
import random

import pytest

from harness import metrics
from harness.raw_http import once, request_bytes
from harness.server import Server


@pytest.fixture(scope="module")
def server():
    with Server() as opened:
        yield opened


@pytest.fixture
def call(visit, server):
    """call(module, function body, argument): runs it with the module as `m`."""
    with visit(server) as page:
        yield lambda module, body, argument=None: page.tab.evaluate(
            f"async (x) => {{ const m = await import('/web/{module}'); {body} }}", argument
        )


def test_events_do_not_depend_on_how_the_stream_is_cut(call, seed):
    rng = random.Random(seed)
    stream = ': sign of life\r\n\r\ndata: {"a":\r\ndata: 1}\r\n\r\nevent: x\ndata:two\n\n\n\ndata: \U0001f642\r\rdata\n\ndata: lost'
    wanted = ['{"a":\n1}', "two", "\U0001f642", ""]
    read = "const r = new m.SseReader(); return x.flatMap((piece) => r.push(piece));"
    assert call("sse.js", read, [stream]) == wanted
    assert call("sse.js", read, list(stream)) == wanted
    for _ in range(20):
        cuts = sorted(rng.sample(range(len(stream)), 6))
        pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)])]
        assert call("sse.js", read, pieces) == wanted, pieces


def test_an_event_without_end_is_given_up(call):
    read = "const r = new m.SseReader(); try { for (;;) r.push('data: ' + 'x'.repeat(1e6)); } catch (e) { return e.message; }"
    assert "too long" in call("sse.js", read)


def test_markdown_does_not_depend_on_how_it_comes(call, seed):
    rng = random.Random(seed)
    text = (
        "# One\n\nA *b* **c** `d`\nlazy\n\n- x\n- y\n\n  z\n\n1. p\n2. q\n\n```c\ncode\n\n```\n\n> quote\n> more\n\n"
        "|a|b|\n|-|-:|\n|1|2|\n\n---\n\n<b>html</b>\r\n\r\n[l](https://example.com/) &amp; ~~del~~\n\nSet\n===\n\n~~~\nopen"
    )
    whole = call("markdown.js", "return m.markdownTrees(x);", text)
    stream = """const s = new m.MarkdownStream(); const trees = [];
      for (const piece of x) { s.push(piece); trees.push(...s.take(false).sealed); }
      trees.push(...s.take(true).sealed); return trees;"""
    assert call("markdown.js", stream, list(text)) == whole
    for _ in range(5):
        cuts = sorted(rng.sample(range(len(text)), 9))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)])]
        assert call("markdown.js", stream, pieces) == whole, pieces
    tags = [tree["tag"] for tree in whole]
    assert tags == "h2 p ul ol code-block blockquote table hr p p h2 code-block".split()


def test_links_lead_to_the_web_and_to_mailboxes_alone(call):
    good = {
        "https://example.com/a?b#c": "https://example.com/a?b#c",
        "HTTP://EXAMPLE.com": "http://example.com/",
        "mailto:a@b.c": "mailto:a@b.c",
        " https://a.b/ ": "https://a.b/",
    }
    bad = ["javascript:1", "JAVASCRIPT:1", "java\nscript:1", "\u0001javascript:1", "data:text/html,x", "file:///etc"]
    bad += ["//a.b", "/a", "a", "", "#x", "blob:https://a/b", "https://", "x" * 3000, None, 7, {}]
    assert call("markdown.js", "return x.map(m.safeUrl);", [*good, *bad]) == [*good.values(), *[None] * len(bad)]


def test_character_references_are_characters(call):
    told = call("markdown.js", "return m.decoded(x);", "&lt;b&gt; &#65;&#x1F642; &#0; &#xD800; &#99999999; &toString; &")
    assert told == "<b> A\U0001f642 \ufffd \ufffd &#99999999; &toString; &"


def test_metrics_are_read_as_a_scraper_reads_them(call, server):
    text = once(server.port, request_bytes("GET", "/metrics")).body.decode()
    names = sorted({n.removeprefix("sluice_") for n, _, _ in metrics.scrape(server.port) if n.startswith("sluice_")})
    read = "const all = m.parseMetrics(x); return [[...all.keys()].sort(), m.total(all, 'connections_open'), m.total(all, 'nothing')];"
    told = call("prometheus.js", read, text)
    assert told[0] == names and told[1] >= 1 and told[2] != told[2]


def test_numbers_read_well(call):
    shown = "return [m.count(1234567), m.amount(0.0123), m.amount(45.678), m.seconds(2e-5), m.seconds(0.0123), m.seconds(75), m.bytes(1536), m.percent(0.0123), m.amount(NaN)];"
    assert call("format.js", shown) == ["1,234,567", "0.012", "45.7", "20.0 µs", "12.3 ms", "1 min 15 s", "1.50 KiB", "1.2 %", "–"]


def test_the_talk_that_is_stored_is_bounded_by_its_newest(call):
    body = """const store = new Map();
      const storage = {getItem: (k) => store.get(k) ?? null, setItem: (k, v) => store.set(k, v), removeItem: (k) => store.delete(k)};
      const messages = Array.from({length: 50}, (_, i) => ({role: 'user', content: String(i).padEnd(1e5, 'x')}));
      new m.Conversation(messages).save(storage);
      const kept = m.Conversation.load(storage).messages;
      return [kept.length, kept.at(-1).content.slice(0, 2), [...store.values()][0].length];"""
    n_kept, last, n_chars = call("conversation.js", body)
    assert 5 <= n_kept < 50 and last == "49" and n_chars <= 2_000_000


def test_settings_that_cannot_be_sent_are_found(call):
    none = {"temperature": "", "top_p": "", "max_tokens": "", "tools": ""}
    good = [{}, {"temperature": "0.7", "max_tokens": "20"}, {"tools": "[]"}]
    bad = [{"temperature": "0,7"}, {"top_p": "much"}, {"max_tokens": "1e400"}, {"tools": "{}"}, {"tools": "[{"}]
    told = call("conversation.js", "return x.map((s) => Object.keys(m.wrongSettings(s)));", [none | s for s in [*good, *bad]])
    assert told == [[], [], [], ["temperature"], ["top_p"], ["max_tokens"], ["tools"], ["tools"]]


def talk(*ends):
    """Messages: a question and its answer with the calls a and b for each end."""
    calls = [{"id": i, "name": "f", "arguments": "{}"} for i in "ab"]
    answers = [{"role": "assistant", "content": "Wait.", "calls": calls, "end": end} for end in ends]
    return [m for answer in answers for m in ({"role": "user", "content": "?"}, answer)]


def test_each_call_is_sent_with_one_result(call):
    result = {"role": "tool", "callId": "b", "content": "fine"}
    later = {"role": "tool", "callId": "a", "content": "too late"}
    messages = [result, *talk("tool_calls"), result, {"role": "user", "content": "so?"}, later]
    settings = {"model": "", "system": "", "tools": "", "temperature": "", "top_p": "", "max_tokens": "", "thinking": "default"}
    body = "return x.map((messages) => new m.Conversation(messages).request(%s).messages);" % json.dumps(settings)
    sent, cut = call("conversation.js", body, [messages, talk("length", "stopped", "error")])
    assert [m["role"] for m in sent] == ["user", "assistant", "tool", "tool", "user"]
    assert [c["id"] for c in sent[1]["tool_calls"]] == ["a", "b"]
    assert [(m["tool_call_id"], m["content"]) for m in sent[2:4]] == [("a", "not answered"), ("b", "fine")]
    assert cut == [{"role": "user", "content": "?"}, {"role": "assistant", "content": "Wait."}] * 3


def test_calls_are_open_until_a_result_or_the_next_message(call):
    result = {"role": "tool", "callId": "b", "content": "fine"}
    talks = [
        talk("tool_calls"),
        [*talk("tool_calls"), result],
        [*talk("tool_calls"), {"role": "user", "content": "so?"}],
        talk("length"),
        [],
    ]
    body = "return x.map((messages) => new m.Conversation(messages).openCalls().map((c) => c.id));"
    assert call("conversation.js", body, talks) == [["a", "b"], ["a"], [], [], []]
