"""Security row S21: whatever a model writes, the page shows it and does nothing else."""

import json

from harness.server import Server

# Each sets this if it runs.
RUNS = "window.pwned=1"

CORPUS = {
    "script": f"<script>{RUNS}</script>",
    "script_in_block": f"<div>\n<script>{RUNS}</script>\n</div>",
    "closed_early": f"</script></style></textarea></title><script>{RUNS}</script>",
    "handlers": f'<img src=x onerror="{RUNS}"><svg onload="{RUNS}"><body onload="{RUNS}">'
    f'<details open ontoggle="{RUNS}"><input autofocus onfocus="{RUNS}">',
    "frames": f'<iframe srcdoc="<script>parent.{RUNS}</script>"></iframe><iframe src="javascript:parent.{RUNS}">'
    '</iframe><object data="http://evil.example/x"></object><embed src="http://evil.example/x">',
    "fetches": '<img src="http://evil.example/a"><link rel="stylesheet" href="http://evil.example/b">'
    '<style>@import "http://evil.example/c"; body{background:url(http://evil.example/d)}</style>'
    '<video src="http://evil.example/e" autoplay></video><base href="http://evil.example/">'
    '<meta http-equiv="refresh" content="0;url=http://evil.example/">',
    "images": '![tracking](http://evil.example/p.png "t") ![](data:image/svg+xml,<svg/onload=1>)'
    " ![a][r]\n\n[r]: http://evil.example/q.png",
    "links": "[a](javascript:window.pwned=1) [b](JaVaScRiPt:window.pwned=1) [c](java\tscript:window.pwned=1)"
    " [d](data:text/html,<script>1</script>) [e](vbscript:x) [f](file:///etc/passwd) [g](//evil.example)"
    " [h](/v1/models) [i](#engine) [j](&#106;avascript:window.pwned=1) [k](<javascript:window.pwned=1>)"
    " <javascript:window.pwned=1> [l](blob:http://x/y) [m](javascript&colon;window.pwned=1)"
    " [ok](https://example.com/\"onclick='window.pwned=1')",
    "attributes": '[x](https://example.com "\\" onmouseover=\\"window.pwned=1") `"><script>window.pwned=1</script>`',
    "language": "```\"><img/src=x/onerror=window.pwned=1>\nx\n```\n\n```__proto__\nx\n```\n\n```constructor\nx\n```",
    "table": f"|<script>{RUNS}</script>|b|\n|:-|-:|\n|<img src=x onerror={RUNS}>|[x](javascript:{RUNS})|",
    "heading": f"# <script>{RUNS}</script>\n\n{'#' * 7} x\n\nx\n===\n",
    "list": "- <b>x</b>\n- [ ] <script>window.pwned=1</script>\n- [x] y\n\n99999999999999999999. z\n\n-1. z",
    "form": '<form action="http://evil.example"><input name=a><button>Send</button></form>',
    "clobber": '<a id="input"></a><form id="messages"><input name="children"></form><a name="pwned">x</a>',
    "entities": "&lt;script&gt;window.pwned=1&lt;/script&gt; &#0; &#xD800; &#1114112; &constructor; &__proto__;",
    "prototype": "__proto__ constructor [__proto__]: x\n\n[__proto__] [constructor]",
    "bidi": "\u202ereversed\u202d \u2066isolated\u2069 \u200f\u061cnever closed \u2067",
    "zalgo": "a" + "\u0301" * 2000,
    "controls": "".join(chr(c) for c in range(1, 32) if c not in (10, 13)) + "\u2028\u2029\ufeff\u0085\u007f",
    "emoji": "\U0001f469\u200d\U0001f469\u200d\U0001f467" * 100,
    "broken": "<div <p <<script>><!-- <![CDATA[ <?php ?> <a href='\n\n</div></p>-->]]>",
    "unclosed": "**a *b ~~c `d [e](f ![g](h <i\n\n> - 1. ",
    "comment": f"<!--><script>{RUNS}</script>--><!--[if IE]><script>{RUNS}</script><![endif]-->",
    "math": "$$\\href{javascript:window.pwned=1}{x}$$ \\(\\unicode{<img src=x onerror=window.pwned=1>}\\)",
    "mermaid": '```mermaid\ngraph TD; A-->B; click A "javascript:window.pwned=1"\n```',
    "sse": 'data: {"choices":[{"delta":{"content":"forged"}}]}\n\ndata: [DONE]\n\n',
}

# Texts that cost a careless reader the square of their length, or its stack.
BOMBS = {
    "quotes": ">" * 20_000,
    "quotes_apart": "> " * 10_000 + "x",
    "brackets": "[" * 20_000,
    "links": "[a](" * 5_000,
    "images": "![" * 10_000,
    "stars": "*a " * 7_000,
    "both": "**a *b " * 4_000,
    "underscores": "_a__b " * 4_000,
    "ticks": " ".join("`" * i + "a" for i in range(200)),
    "lists": "- " * 10_000,
    "numbers": "1. " * 7_000,
    "deep_list": "\n".join(" " * (2 * i) + "- a" for i in range(150)),
    "tags": "<a " * 7_000,
    "pipes": "|" * 20_000 + "\n" + "|-" * 10_000,
    "wide_table": "|" + "a|" * 5_000 + "\n|" + "-|" * 5_000 + "\n" + "|b" * 5_000,
    "dots": "a." * 10_000 + "@b",
    "spaces": "a" + " " * 20_000 + "b",
    "definitions": "[a]: b\n" * 3_000,
    "dashes": "- - " * 5_000 + "a",
    "fences": "```\n" * 5_000,
    "line_of_a_megabyte": "x" * 1_000_000,
    "megabyte_of_code": "```\n" + "y\n" * 500_000,
    "megabyte_of_emphasis": "_a__b " * 170_000,
    "megabyte_of_paragraphs": "a *b* c\n\n" * 110_000,
}

# Of these markdown shows next to nothing.
NOT_SEEN = {"lists", "numbers", "dashes", "deep_list", "spaces", "definitions", "fences"}

# What is not as markdown.js makes it.
STRANGE = """() => {
  const tags = new Set(('P DIV SPAN H2 H3 H4 H5 H6 STRONG EM DEL CODE PRE BR A UL OL LI BLOCKQUOTE HR TABLE THEAD ' +
    'TBODY TR TH TD BUTTON').split(' '));
  const names = new Set(['class', 'href', 'target', 'rel', 'title', 'start', 'tabindex', 'type']);
  const strange = [];
  for (const e of document.querySelectorAll('#messages .md *, #messages .code *')) {
    if (!tags.has(e.tagName)) strange.push(e.tagName);
    for (const a of e.attributes) if (!names.has(a.name)) strange.push(`${e.tagName} ${a.name}`);
    if (e.tagName !== 'A') continue;
    if (!/^(https?|mailto):/.test(e.href)) strange.push(e.href);
    if (e.target !== '_blank' || !e.relList.contains('noopener')) strange.push(`${e.href} opens here`);
  }
  if (window.pwned !== undefined) strange.push('it ran');
  return strange;
}"""


def answer_of(text):
    """The body of an answer that is this text, as the server streams it."""
    pieces = [text[i : i + 4096] for i in range(0, len(text), 4096)]
    deltas = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
    frames = [*deltas, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
    return "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames) + "data: [DONE]\n\n"


def test_s21_hostile_answers_are_shown_and_do_nothing(visit):
    script = [
        {"when": {"last": f"case {name}."}, "out": f"{text}</think>{text}", "tokens_per_event": 64}
        for name, text in CORPUS.items()
    ]
    with Server(script=script) as server, visit(server) as page:
        for n, name in enumerate(CORPUS, 1):
            page.ask(f"case {name}.")
            answer = page.answered(n)
            answer.locator("summary").click()
            assert page.tab.evaluate(STRANGE) == [], name
            assert answer.locator(".facts").inner_text() != "", name
        shown = page.tab.locator("#messages").text_content()
        assert f"<script>{RUNS}</script>" in shown and "<iframe srcdoc=" in shown
        for link in page.tab.locator(".assistant .md a").all():
            link.hover()
        assert page.tab.evaluate("window.pwned") is None
        page.tab.reload()  # and all of it again, from what was stored
        page.answered(len(CORPUS))
        assert page.tab.evaluate(STRANGE) == []


def test_s21_what_clients_and_tools_write_does_nothing_either(visit):
    text = CORPUS["handlers"] + CORPUS["script"]
    call = (
        f'</think>\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name="weather">\n'
        f'<｜DSML｜ parameter name="city" string="true">{text}</｜DSML｜ parameter>\n'
        "</｜DSML｜ invoke>\n</｜DSML｜ calls>"
    )
    tools = '[{"type":"function","function":{"name":"weather","parameters":{}}}]'
    with Server(script=[{"out": call}, {"out": "</think>done"}]) as server, visit(server) as page:
        page.tab.click("#open-settings")
        page.tab.fill("#set-tools", tools)
        page.tab.click("#settings-close")
        page.ask(text)
        page.answered(1)
        assert page.text(".bubble") == text
        page.tab.fill(".result textarea", text)
        page.tab.click(".result button")
        page.answered(2)
        assert page.tab.evaluate(STRANGE) == []
        assert page.count("#messages img, #messages script, #messages svg, #messages details") == 0


def test_s21_an_error_and_a_model_name_are_text(visit):
    text = CORPUS["handlers"]
    models = {"data": [{"id": text, "context_length": 1}]}
    with Server() as server, visit(server) as page:
        page.context.route("**/v1/models", lambda route: route.fulfill(json=models))
        error = {"error": {"message": text}}
        page.context.route("**/v1/chat/completions", lambda r: r.fulfill(status=400, json=error))
        page.tab.reload()
        page.tab.wait_for_selector("#model:not(:empty)")
        page.ask("hi")
        assert page.answered(1).locator(".error").inner_text() == text
        assert page.text("#model") == text
        assert page.tab.evaluate("window.pwned") is None


def test_s21_bombs_do_not_stop_the_page(visit):
    """The network is played, so that a text is not bounded by what a model may say at once."""
    with Server() as server, visit(server) as page:
        texts = {}
        page.context.route(
            "**/v1/chat/completions",
            lambda route: route.fulfill(
                content_type="text/event-stream",
                body=answer_of(texts[route.request.post_data_json["messages"][-1]["content"]]),
            ),
        )
        slow = {}
        for n, (name, text) in enumerate(BOMBS.items(), 1):
            texts[name] = text
            page.tab.evaluate("() => { window.longest = 0; window.before = performance.now(); }")
            page.tab.evaluate(
                """() => { window.watch = setInterval(() => {
                  const now = performance.now();
                  window.longest = Math.max(window.longest, now - window.before);
                  window.before = now;
                }, 10); }"""
            )
            page.ask(name)
            answer = page.answered(1)
            if name not in NOT_SEEN:
                page.waits_for(
                    "n => document.querySelector('.assistant > .md').textContent.length >= n",
                    int(len(text) * 0.1),
                )
            longest = page.tab.evaluate("() => { clearInterval(window.watch); return window.longest; }")
            if longest > 5000:  # on two busy cores; the careless reader needs minutes
                slow[name] = longest
            assert page.tab.evaluate(STRANGE) == [], name
            assert answer.locator(".facts").count() == 1, name
            page.tab.click("#new")
        assert slow == {}, slow
