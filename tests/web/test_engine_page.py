"""The view of the engine in a browser: its numbers are those of /metrics."""

import re

from harness import metrics
from harness.server import Server, wait_until

SLOW = {"out": "</think>" + "word " * 2000, "times": "always", "pace_ms": 10}
KEY = "sk-page-0123456789"


def tile(page, name):
    return page.text(f'.tile[data-name="{name}"] .number')


def test_numbers_are_those_of_the_metrics(visit):
    with Server(script=[SLOW], options=["--script-engine"]) as server, visit(server) as page:
        page.ask("Go on")
        page.waits_for("() => /word word/.test(document.querySelector('.assistant .md').innerText)")
        page.tab.click("#to-engine")
        page.waits_for("() => document.querySelector('[data-name=Running] .number').innerText === '1'")
        wait_until(lambda: tile(page, "Generated") not in ("–", "0"), 10, "a rate")
        assert tile(page, "Waiting") == "0"
        assert re.fullmatch(r"[\d.]+ (µs|ms|s)", tile(page, "Step time"))
        assert re.fullmatch(r"[\d.,]+ [KMG]iB", tile(page, "Memory"))
        rate = float(tile(page, "Generated").replace(",", ""))
        assert 5 < rate < 150, "one token in 10 ms, and the look at it may be late"
        page.tab.click("#to-chat")
        page.tab.click("#send")
        metrics.wait_running(server, 0)
        page.tab.click("#to-engine")
        page.waits_for("() => document.querySelector('[data-name=Running] .number').innerText === '0'")
        for part in ("in use", "cached", "free"):
            told = page.text(f'[data-name="blocks {part}"] b')
            name = f"kv_blocks_{part.replace(' ', '_')}"
            assert int(told.replace(",", "")) == metrics.value(server, name), part
        assert page.text("dd >> nth=1") == "1", "cancelled"
        assert page.count(".tile polyline[points]") == page.count(".tile")


def test_it_asks_only_while_it_is_open(visit):
    with Server() as server, visit(server) as page:

        def n_asked():
            return sum(url.endswith("/metrics") for url in page.requests)

        page.tab.wait_for_selector("#model:not(:empty)")
        assert n_asked() == 0
        page.tab.click("#to-engine")
        wait_until(lambda: page.tab.wait_for_timeout(50) or n_asked() >= 2, 10, "two looks")
        page.tab.click("#to-chat")
        n_before = n_asked()
        page.tab.wait_for_timeout(1500)
        assert n_asked() <= n_before + 1


def test_a_key_that_is_wrong_and_a_server_that_is_gone_are_told(visit):
    with Server() as server, visit(server) as page:
        refusal = {"error": {"message": "no such key"}}
        page.context.route("**/metrics", lambda route: route.fulfill(status=401, json=refusal))
        page.tab.click("#to-engine")
        page.waits_for("() => document.querySelector('#engine .note').innerText.startsWith('no such key')")
        page.context.unroute("**/metrics")
        page.waits_for("() => document.querySelector('#engine .note').innerText === ''")
        server.process.terminate()
        server.wait()
        page.waits_for("() => /does not answer/.test(document.querySelector('#engine .note').innerText)")
