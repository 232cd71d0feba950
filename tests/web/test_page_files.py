"""The page as bytes: what the server sends and what stands in the sources. No browser."""

import hashlib
import re
from pathlib import Path

from harness.raw_http import chat_request, once, request_bytes
from harness.server import Server

WEB = Path(__file__).resolve().parents[2] / "web"
BROWSER = ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
# marked 18.2.1, lib/marked.esm.js of the npm package.
MARKED_SHA256 = "5371fea86fd0656b4fc7bea7c94c663109d82789b69433eeee78d42895aa44de"


def get(server, path, *headers, method="GET"):
    head = method == "HEAD"
    return once(server.port, request_bytes(method, path, headers=headers), head=head)


def own_sources():
    return [p for p in sorted(WEB.rglob("*")) if p.is_file() and "vendor" not in p.parts]


def test_browsers_get_the_page_and_programs_what_they_had():
    with Server() as server:
        page = get(server, "/", BROWSER)
        assert page.status == 200 and page.header("content-type") == "text/html; charset=utf-8"
        assert page.body == (WEB / "index.html").read_bytes()
        for accept in ([], [("Accept", "*/*")], [("Accept", "application/json")]):
            answer = get(server, "/", *accept)
            assert answer.json().keys() == {"version"}
            assert answer.header("vary") == page.header("vary") == "Accept"
        assert get(server, "/", BROWSER, method="HEAD").header("etag") == page.header("etag")


def test_headers_of_every_file_are_exact():
    with Server() as server:
        for path in ["/", *(f"/web/{p.relative_to(WEB)}" for p in WEB.rglob("*") if p.is_file())]:
            answer = get(server, path, BROWSER)
            assert answer.status == 200, path
            assert answer.header("content-security-policy") == POLICY
            assert answer.header("x-content-type-options") == "nosniff"
            assert answer.header("referrer-policy") == "no-referrer"
            assert answer.header("cross-origin-opener-policy") == "same-origin"
            assert answer.header("cache-control") == "no-cache"
            again = get(server, path, BROWSER, ("If-None-Match", answer.header("etag")))
            assert (again.status, again.body) == (304, b"")
            assert again.header("content-length") is None
            other = get(server, path, BROWSER, ("If-None-Match", '"0"'))
            assert (other.status, other.body) == (200, answer.body)


def test_nothing_else_lies_below_web():
    with Server() as server:
        for path in ("/web/nothing.js", "/web/../index.html", "/web/vendor/", "/web/%2e%2e/x"):
            assert get(server, path, BROWSER).status == 404, path
        assert get(server, "/web/app.js", method="POST").status == 405
        assert once(server.admin_port, request_bytes("GET", "/web/app.js")).status == 404


def test_it_can_be_switched_off():
    with Server(options=["--web-page=false"]) as server:
        answer = get(server, "/", BROWSER)
        assert answer.json().keys() == {"version"} and answer.header("vary") is None
        assert get(server, "/web/app.js", BROWSER).status == 404


def test_it_needs_no_key_and_opens_no_door():
    with Server(options=["--api-key", "sk-page-0123456789"]) as server:
        assert get(server, "/", BROWSER).status == 200
        assert get(server, "/web/app.js").status == 200
        assert get(server, "/v1/models").status == 401
        assert once(server.port, chat_request()).status == 401


def test_s21_no_source_makes_markup_of_text():
    banned = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser"
        r"|createContextualFragment|srcdoc|setHTML|javascript:|\bimport\(|setTimeout\(['\"`]"
    )
    for path in own_sources():
        found = banned.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{path.name}: {found[0]}"


def test_s21_no_source_names_another_host():
    namespaces = {"http://www.w3.org/2000/svg"}
    for path in own_sources():
        urls = set(re.findall(r"(?:https?:)?//[\w.-]+\.[\w./-]+", path.read_text(encoding="utf-8")))
        assert urls <= namespaces, f"{path.name}: {urls - namespaces}"


def test_index_has_no_scripts_or_styles_of_its_own():
    text = (WEB / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]*\ssrc=)", text) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", text) == []


def test_sources_are_short_and_the_vendored_one_is_the_published_one():
    for path in own_sources():
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 500, path.name
    vendored = [p for p in WEB.rglob("*") if p.is_file() and "vendor" in p.parts]
    assert [p.name for p in vendored] == ["marked.js"]
    assert hashlib.sha256(vendored[0].read_bytes()).hexdigest() == MARKED_SHA256
