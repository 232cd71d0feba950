"""The chat in a browser, over the real server."""

import json
import re
import socket

from harness import metrics
from harness.server import Server

SLOW = {"out": "</think>" + "word " * 400, "times": "always", "pace_ms": 20}
OK = {"out": "I think.</think>**Fine** answer", "times": "always"}
KEY = "sk-page-0123456789"
WEATHER = (
    '[{"type":"function","function":{"name":"weather","parameters":{"type":"object",'
    '"properties":{"city":{"type":"string"}}}}}]'
)
CALL = (
    "</think>Let me look.\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"weather\">\n"
    '<｜DSML｜ parameter name="city" string="true">Paris <b>1</b></｜DSML｜ parameter>\n'
    "</｜DSML｜ invoke>\n</｜DSML｜ calls>"
)


def close_settings(page):
    page.tab.click("#settings-close")
    page.tab.wait_for_selector("#settings", state="hidden")


def test_an_answer_streams_and_ends(visit):
    script = [{"out": "Some *thoughts*.</think>" + "One **two** three. " * 20, "pace_ms": 4}]
    with Server(script=script) as server, visit(server) as page:
        page.ask("Go on")
        page.waits_for("() => /One two/.test(document.querySelector('.assistant > .md').innerText)")
        assert page.count("#send.stop") == 1, "shown while it comes"
        page.waits_for("() => /≈ .* tokens.s/.test(document.querySelector('.meta.open')?.innerText)")
        answer = page.answered(1)
        assert answer.locator("> .md").inner_text() == ("One two three. " * 20).strip()
        assert answer.locator("> .md strong").count() == 20
        n_tokens = len("Some *thoughts*.</think>" + "One **two** three. " * 20) - len("</think>") + 1
        assert f"{n_tokens} tokens" in answer.locator(".facts").inner_text()
        assert answer.locator(".reasoning .md").is_hidden()
        answer.locator("summary").click()
        assert answer.locator(".reasoning .md em").inner_text() == "thoughts"


def test_cached_tokens_are_told_for_each_message(visit):
    with Server(script=[OK], options=["--script-engine"]) as server, visit(server) as page:
        page.ask("x" * 300)
        assert ", 0 cached" in page.answered(1).locator(".facts").inner_text()
        page.ask("more")
        facts = page.answered(2).locator(".facts").inner_text()
        assert int(re.search(r"([\d,]+) cached", facts)[1].replace(",", "")) > 300, facts


def test_the_prompt_is_seen_being_read(visit):
    seen = """() => {
      window.seen = [];
      new MutationObserver(() => {
        const text = document.querySelector('.wait')?.textContent ?? '';
        if (text.includes('Reading')) window.seen.push(text);
      }).observe(document.body, {childList: true, subtree: true});
    }"""
    options = ["--script-engine", "--prefill-chunk", "16"]
    with Server(script=[OK], options=options) as server, visit(server) as page:
        page.tab.evaluate(seen)
        page.ask("words " * 5000)
        page.answered(1)
        told = page.tab.evaluate("window.seen")
        pattern = r"Reading the prompt: ([\d,]+) of ([\d,]+) tokens"
        found = [[int(n.replace(",", "")) for n in re.search(pattern, t).groups()] for t in told]
        assert found, "the prompt takes many steps"
        assert all(0 < done < total and total > 30_000 for done, total in found), found


def test_stop_stops(visit):
    with Server(script=[SLOW]) as server, visit(server) as page:
        page.ask("Go on")
        page.waits_for("() => /word word/.test(document.querySelector('.assistant .md').innerText)")
        metrics.wait_running(server, 1)
        page.tab.click("#send")
        answer = page.answered(1)
        metrics.wait_running(server, 0)
        assert metrics.value(server, "requests_finished_total", 'cancelled"') == 1
        assert "stopped" in answer.locator(".facts").inner_text()
        assert "word word" in answer.locator("> .md").inner_text(), "what came stays"
        assert page.count(".error") == 0


def test_the_keyboard_is_enough(visit):
    with Server(script=[SLOW]) as server, visit(server) as page:
        tab = page.tab
        assert tab.evaluate("document.activeElement.id") == "input"
        tab.keyboard.type("one")
        tab.keyboard.press("Shift+Enter")
        tab.keyboard.type("two")
        tab.keyboard.press("Enter")
        assert page.text(".bubble") == "one\ntwo"
        page.waits_for("() => /word/.test(document.querySelector('.assistant .md').innerText)")
        tab.keyboard.press("Escape")
        page.answered(1)
        metrics.wait_running(server, 0)
        order = []
        for _ in range(12):
            tab.keyboard.press("Tab")
            order.append(tab.evaluate("document.activeElement.id || document.activeElement.textContent"))
        wanted = ["send", "sluice", "to-chat", "to-engine", "new", "theme", "open-settings"]
        assert [name for name in order if name in wanted] == wanted, order
        tab.focus("#open-settings")
        tab.keyboard.press("Enter")
        assert tab.locator("#settings").is_visible()
        tab.keyboard.press("Escape")
        assert tab.locator("#settings").is_hidden()


def test_everything_to_press_or_fill_has_a_name(visit):
    with Server(script=[OK]) as server, visit(server) as page:
        page.ask("hi")
        page.answered(1)
        page.tab.click("#open-settings")
        nameless = page.tab.evaluate(
            """() => [...document.querySelectorAll('button, a, input, select, textarea')]
            .filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length))
            .map((e) => e.outerHTML)"""
        )
        assert nameless == []


def test_a_reload_keeps_the_talk_and_a_new_one_forgets_it(visit):
    with Server(script=[OK]) as server, visit(server) as page:
        page.ask("Keep this")
        facts = page.answered(1).locator(".facts").inner_text()
        page.tab.reload()
        assert page.text(".bubble") == "Keep this"
        answer = page.answered(1)
        assert answer.locator("> .md strong").inner_text() == "Fine"
        assert answer.locator(".facts").inner_text() == facts
        page.ask("again")
        page.answered(2)
        page.tab.click("#new")
        assert page.count("article") == 0 and page.tab.locator("#welcome").is_visible()
        page.tab.reload()
        assert page.count("article") == 0


def test_a_reload_in_the_middle_keeps_what_came(visit):
    with Server(script=[SLOW]) as server, visit(server) as page:
        page.ask("Go on")
        page.waits_for("() => /word word/.test(document.querySelector('.assistant .md').innerText)")
        page.tab.reload()
        metrics.wait_running(server, 0)
        answer = page.answered(1)
        assert "word word" in answer.locator("> .md").inner_text()
        assert "stopped" in answer.locator(".facts").inner_text()


def test_what_is_stored_by_others_does_not_break_it(visit):
    with Server(script=[OK]) as server, visit(server) as page:
        for text in ('{"a":1}', "[1,null,{}]", "[[", '[{"role":"user","content":7}]'):
            page.tab.evaluate("t => sessionStorage.setItem('sluice.conversation', t)", text)
            page.tab.evaluate("t => localStorage.setItem('sluice.settings', t)", text)
            page.tab.reload()
            assert page.count("article") == 0
        page.ask("hi")
        page.answered(1)


def test_it_works_where_storage_is_forbidden(visit):
    forbid = """for (const name of ['sessionStorage', 'localStorage']) {
      const get = () => { throw new DOMException('forbidden', 'SecurityError'); };
      Object.defineProperty(window, name, {get});
    }"""
    with Server(script=[OK], options=["--api-key", KEY]) as server, visit(server) as page:
        page.context.add_init_script(forbid)
        page.tab.reload()
        page.tab.wait_for_selector("#settings[open]")
        page.tab.keyboard.type(KEY)
        close_settings(page)
        page.ask("hi")
        assert page.answered(1).locator("> .md").inner_text() == "Fine answer"
        page.tab.click("#new")
        assert page.count("article") == 0


def test_a_key_is_asked_for_entered_and_forgotten_with_the_tab(visit):
    with Server(script=[OK], options=["--api-key", KEY]) as server, visit(server) as page:
        page.tab.wait_for_selector("#settings[open]")
        assert page.text("#settings-why") != ""
        page.tab.keyboard.type(KEY)
        close_settings(page)
        page.tab.wait_for_selector("#model:not(:empty)")
        page.ask("hi")
        assert page.answered(1).locator("> .md").inner_text() == "Fine answer"
        stored = "() => [Object.values(localStorage).join(), Object.values(sessionStorage).join()]"
        kept, passing = page.tab.evaluate(stored)
        assert KEY not in kept and KEY in passing
        page.tab.reload()
        page.tab.wait_for_selector("#model:not(:empty)")
        assert not any(KEY in url for url in page.requests)


def test_errors_have_the_servers_words(visit):
    busy = {"when": {"last": "busy"}, "refuse": "overloaded", "times": "always"}
    broken = {"when": {"last": "break"}, "out": "</think>abcdefgh", "fail_after": 4, "times": "always"}
    with Server(script=[busy, broken, OK]) as server, visit(server) as page:
        page.ask("busy")
        page.answered(1)
        assert "overloaded" in page.text(".error").lower() or "later" in page.text(".error").lower()
        page.ask("break")
        answer = page.answered(2)
        assert answer.locator(".error").inner_text() != ""
        page.ask("fine")
        assert page.answered(3).locator("> .md").inner_text() == "Fine answer"
        page.tab.click("#open-settings")
        page.tab.fill("#set-temperature", "9")
        close_settings(page)
        page.ask("too hot")
        assert "temperature" in page.answered(4).locator(".error").inner_text()


def test_a_server_that_is_gone_is_told(visit):
    with Server(script=[OK]) as server, visit(server) as page:
        page.tab.wait_for_selector("#model:not(:empty)")
        server.process.terminate()
        server.wait()
        page.ask("hi")
        assert "does not answer" in page.answered(1).locator(".error").inner_text()


def test_settings_are_sent_and_kept(visit):
    with Server(script=[OK]) as server, visit(server) as page:
        bodies = []
        page.tab.on("request", lambda r: r.post_data and bodies.append(r.post_data_json))
        page.tab.click("#open-settings")
        for name, value in {"system": "Be brief.", "temperature": "0.5", "max_tokens": "7"}.items():
            page.tab.fill(f"#set-{name}", value)
        page.tab.select_option("#set-thinking", "off")
        close_settings(page)
        page.tab.reload()
        page.ask("hi")
        page.answered(1)
        body = bodies[-1]
        assert body["messages"] == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"},
        ]
        assert (body["temperature"], body["max_tokens"]) == (0.5, 7)
        assert body["thinking"] == {"type": "disabled"} and "top_p" not in body
        assert "cut at the limit" in page.text(".facts")


def test_settings_that_cannot_be_sent_are_told_and_not_taken_over(visit):
    broken = {"tools": "[{", "temperature": "0,7"}
    with Server(script=[OK]) as server, visit(server) as page:
        bodies = []
        page.tab.on("request", lambda r: r.post_data and bodies.append(r.post_data_json))
        page.tab.click("#open-settings")
        page.tab.fill("#set-temperature", "0.5")
        close_settings(page)
        page.tab.click("#open-settings")
        for name, value in broken.items():
            page.tab.fill(f"#set-{name}", value)
        page.tab.click("#settings-close")
        assert page.tab.locator("#settings").is_visible()
        assert "JSON" in page.text("#tools-wrong")
        assert "Temperature must be a number" in page.text("#numbers-wrong")
        page.tab.keyboard.press("Escape")
        page.tab.wait_for_selector("#settings", state="hidden")
        page.ask("hi")
        assert page.answered(1).locator("> .md").inner_text() == "Fine answer"
        assert bodies[-1]["temperature"] == 0.5 and "tools" not in bodies[-1]


def test_stored_settings_that_cannot_be_sent_are_told(visit):
    with Server(script=[OK]) as server, visit(server) as page:
        for n, (name, value) in enumerate({"tools": "[{", "top_p": "0,7"}.items(), 1):
            store = "text => localStorage.setItem('sluice.settings', text)"
            page.tab.evaluate(store, json.dumps({name: value}))
            page.tab.reload()
            page.ask("hi")
            assert "The settings cannot be sent" in page.answered(n).locator(".error").inner_text()
        assert not any(url.endswith("/v1/chat/completions") for url in page.requests)


def test_calls_are_shown_and_their_results_given(visit):
    script = [{"when": {"last": "sunny"}, "out": "</think>It is sunny."}, {"out": CALL}]
    with Server(script=script) as server, visit(server) as page:
        page.tab.click("#open-settings")
        page.tab.fill("#set-tools", "[{]")
        assert "JSON" in page.text("#tools-wrong")
        page.tab.fill("#set-tools", WEATHER)
        close_settings(page)
        page.ask("The weather?")
        answer = page.answered(1)
        assert "weather" in answer.locator(".call-head").inner_text()
        assert '"city": "Paris <b>1</b>"' in answer.locator(".call pre").inner_text()
        page.tab.fill(".result textarea", "sunny, 20 degrees")
        page.tab.click(".result button")
        assert page.answered(2).locator("> .md").inner_text() == "It is sunny."
        page.tab.reload()
        page.answered(2)
        assert page.count(".call") == 1 and page.count(".result") == 0, "it was answered"


def test_who_writes_on_instead_of_giving_results_gets_answers(visit):
    script = [{"when": {"last": "never mind"}, "out": "</think>Fine.", "times": "always"}, {"out": CALL}]
    with Server(script=script) as server, visit(server) as page:
        page.tab.click("#open-settings")
        page.tab.fill("#set-tools", WEATHER)
        close_settings(page)
        page.ask("The weather?")
        page.answered(1)
        page.tab.reload()
        page.tab.wait_for_selector(".result")  # still open
        page.ask("never mind")
        assert page.answered(2).locator("> .md").inner_text() == "Fine."
        assert page.count(".result") == 0
        page.ask("never mind")
        assert page.answered(3).locator("> .md").inner_text() == "Fine."


def test_a_call_that_was_cut_leaves_a_talk_that_goes_on(visit):
    script = [{"when": {"last": "go on"}, "out": "</think>Fine."}, {"out": CALL}]
    with Server(script=script) as server, visit(server) as page:
        page.tab.click("#open-settings")
        page.tab.fill("#set-tools", WEATHER)
        page.tab.fill("#set-max_tokens", str(CALL.index("Paris")))
        close_settings(page)
        page.ask("The weather?")
        answer = page.answered(1)
        assert "cut at the limit" in answer.locator(".facts").inner_text()
        assert answer.locator(".call").count() == 1 and page.count(".result") == 0
        page.ask("go on")
        assert page.answered(2).locator("> .md").inner_text() == "Fine."


def test_a_message_is_edited_and_an_answer_made_anew(visit):
    script = [{"when": {"last": "better"}, "out": "</think>second", "times": "always"}, OK]
    with Server(script=script) as server, visit(server) as page:
        page.ask("first")
        page.answered(1)
        page.tab.click("text=Regenerate")
        assert page.answered(1).locator("> .md").inner_text() == "Fine answer"
        page.tab.click(".user >> text=Edit")
        page.tab.fill(".user textarea", "better")
        page.tab.press(".user textarea", "Enter")
        page.waits_for("() => document.querySelector('.assistant > .md')?.innerText === 'second'")
        assert page.count("article") == 2 and page.text(".bubble") == "better"


def test_code_and_answers_are_copied_as_they_were_written(visit):
    script = [{"out": "</think>See *this*:\n\n```c\nint <a>;\n```\n"}]
    with Server(script=script) as server:
        with visit(server, permissions=["clipboard-read", "clipboard-write"]) as page:
            page.ask("hi")
            answer = page.answered(1)
            answer.locator(".code button").click()
            page.waits_for("() => document.querySelector('.code button').textContent === 'Copied'")
            assert page.tab.evaluate("navigator.clipboard.readText()") == "int <a>;"
            answer.locator(".meta button").first.click()
            page.waits_for("() => document.querySelectorAll('.assistant .meta button')[0].textContent === 'Copied'")
            text = page.tab.evaluate("navigator.clipboard.readText()")
            assert text == "See *this*:\n\n```c\nint <a>;\n```\n"


def test_who_reads_above_is_left_there(visit):
    script = [{"out": "</think>" + "line\n\n" * 200, "pace_ms": 3, "times": "always"}]
    with Server(script=script) as server, visit(server) as page:
        page.ask("Go on")
        page.waits_for("() => document.getElementById('scroller').scrollTop > 300")
        page.tab.hover("#scroller")
        page.tab.mouse.wheel(0, -250)
        page.tab.wait_for_selector("#to-end:not([hidden])")
        at = page.tab.evaluate("document.getElementById('scroller').scrollTop")
        page.answered(1)
        assert page.tab.evaluate("document.getElementById('scroller').scrollTop") <= at + 1
        page.tab.click("#to-end")
        page.waits_for("() => document.getElementById('to-end').hidden")


def test_nothing_is_wider_than_a_phone(visit):
    wide = "</think>" + "x" * 400 + "\n\n```\n" + "y" * 400 + "\n```\n\n|" + "a|" * 40 + "\n|" + "-|" * 40
    phone = {"viewport": {"width": 320, "height": 640}, "has_touch": True, "is_mobile": True}
    with Server(script=[{"out": wide, "times": "always"}]) as server:
        with visit(server, **phone) as page:
            page.ask("z" * 400)
            page.answered(1)
            widths = "() => [document.documentElement, document.getElementById('scroller')].map((e) => e.scrollWidth)"
            assert max(page.tab.evaluate(widths)) <= 320
            page.tab.click("#open-settings")
            box = page.tab.locator("#settings").bounding_box()
            assert 0 <= box["x"] and box["x"] + box["width"] <= 320
            close_settings(page)
            page.tab.click("#to-engine")
            assert page.tab.evaluate("document.documentElement.scrollWidth") <= 320


def test_colours_follow_the_system_and_the_switch(visit):
    back = "() => getComputedStyle(document.body).backgroundColor"

    def is_dark(page):
        return max(int(n) for n in re.findall(r"\d+", page.tab.evaluate(back))) < 64

    with Server() as server:
        with visit(server, color_scheme="dark") as page:
            assert is_dark(page)
            page.tab.click("#theme")  # light
            assert not is_dark(page)
            page.tab.reload()
            assert not is_dark(page), "it is remembered"
        with visit(server, color_scheme="light") as page:
            assert not is_dark(page)


def test_a_model_that_loads_is_told(visit):
    """A server that is not ready, played by the browser's network."""
    loading = {
        "status": "unavailable",
        "reason": "loading",
        "loading": {"percent": 42.5, "eta_s": 12.0, "done_bytes": 1, "total_bytes": 2},
    }
    with Server(script=[OK]) as server, visit(server) as page:
        page.context.route("**/ready", lambda route: route.fulfill(status=503, json=loading))
        page.tab.reload()
        page.tab.wait_for_selector("#notice:not([hidden])")
        assert "42.5 %" in page.text("#notice") and "12.0 s" in page.text("#notice")
        page.context.unroute("**/ready")
        page.tab.wait_for_selector("#notice", state="hidden")


def test_another_sites_page_cannot_use_it(visit):
    """Its scripts come from another origin: the server refuses, and the policy forbids frames."""
    with Server(script=[OK]) as server, socket.socket() as other, visit(server) as page:
        other.bind(("127.0.0.1", 0))
        answer = page.context.request.post(
            f"{page.origin}/v1/chat/completions",
            headers={"Origin": "http://evil.example", "Content-Type": "application/json"},
            data={"messages": []},
        )
        assert answer.status == 403
