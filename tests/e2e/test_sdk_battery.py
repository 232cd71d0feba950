"""The same questions to every surface of the official Python SDKs, streamed and whole. The battery of Node
(tests/agents) asks them too, of the same script.
"""

import threading

import pytest

from agents.battery import OPTIONS, RIGHT_KEY, SCRIPT
from harness import metrics, sdk_surfaces
from harness.sdk_surfaces import ALL, TOOL, WITH_TOOLS
from harness.server import Server, Shared, wait_until

BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
EACH = pytest.mark.parametrize("surface", ALL.values(), ids=ALL)
EACH_WITH_TOOLS = pytest.mark.parametrize("surface", WITH_TOOLS.values(), ids=WITH_TOOLS)


@pytest.fixture(scope="module")
def shared():
    with Shared(script=SCRIPT, options=OPTIONS) as servers:
        yield servers


@pytest.fixture
def server(shared):
    with shared.lent() as server:
        yield server


@pytest.fixture
def sdk(surface, server):
    return surface.client(server, RIGHT_KEY)


@EACH_WITH_TOOLS
@BOTH
def test_parallel_tools(surface, sdk, stream):
    got = surface.ask(sdk, "[[parallel]]", stream, **surface.tools())
    assert [(name, value["harbour"]) for _, name, value in got.calls] == [(TOOL, "Brest"), (TOOL, "Bruges")]
    assert len({i for i, _, _ in got.calls}) == 2
    assert (got.reasoning, got.text, got.finish) == ("Two of them.", "", surface.called)


@EACH_WITH_TOOLS
@BOTH
@pytest.mark.parametrize("choice", ["required", "named"])
@pytest.mark.parametrize("thinks", [False, True], ids=["plain", "thinking"])
def test_forced_tools(surface, sdk, stream, choice, thinks):
    more = surface.tools() | {"tool_choice": surface.choices[choice]}
    more |= {} if thinks else surface.thinking_off
    got = surface.ask(sdk, "[[forced]]", stream, **more)
    ((_, name, value),) = got.calls
    assert (name, value) == (TOOL, {"harbour": "Brest"})
    assert (got.reasoning, got.text, got.finish) == ("I must." if thinks else "", "", surface.called)


@EACH_WITH_TOOLS
@BOTH
@pytest.mark.parametrize("thinks", [False, True], ids=["plain", "thinking"])
def test_thinking(surface, sdk, stream, thinks):
    got = surface.ask(sdk, "[[text]]", stream, **({} if thinks else surface.thinking_off))
    assert (got.reasoning, got.text) == ("I think." if thinks else "", "Hello, world.")


@EACH
def test_usage_with_cached_tokens_is_the_same_streamed_and_whole(surface, sdk):
    whole, streamed = (surface.ask(sdk, "[[cached]]", stream) for stream in (False, True))
    assert whole.n_prompt > whole.n_cached == 3 and whole.n_output > 0
    assert (whole.n_prompt, whole.n_cached, whole.n_output) == (streamed.n_prompt, streamed.n_cached, streamed.n_output)
    if surface.name == "messages":
        counted = sdk.messages.count_tokens(
            model=sdk_surfaces.MODEL, messages=[{"role": "user", "content": "[[cached]]"}]
        )
        assert counted.input_tokens == whole.n_prompt


ERRORS = {
    "bad value": (400, "BadRequestError"),
    "context": (400, "BadRequestError"),
    "key": (401, "AuthenticationError"),
    "origin": (403, "PermissionDeniedError"),
    "path": (404, "NotFoundError"),
    "size": (413, "APIStatusError"),
    "busy": (429, "RateLimitError"),
    "internal": (500, "InternalServerError"),
    "overloaded": (None, "APIStatusError"),
    "late": (504, "APIStatusError"),
}


@EACH
@BOTH
@pytest.mark.parametrize("error", ERRORS)
def test_every_error_class(surface, server, error, stream):
    status, kind = ERRORS[error]
    sdk = surface.client(server, "wrong-key-2718" if error == "key" else RIGHT_KEY)
    more, text = {}, f"[[{error}]]"
    if error == "bad value":
        more = surface.too_hot
    elif error == "origin":
        more = {"extra_headers": {"Origin": "http://evil.example"}}
    elif error == "path":
        sdk = sdk.copy(base_url=f"http://127.0.0.1:{server.port}/nowhere")
    elif error == "size":
        text = "x" * 70_000
    elif error == "late" and stream:
        pytest.skip("a stream has begun by then: test_an_error_in_a_stream_is_raised")
    with pytest.raises(getattr(surface.errors, kind)) as caught:
        surface.ask(sdk, text, stream, **more)
    assert caught.value.status_code == (status or surface.overloaded_status)
    assert caught.value.request_id
    headers = caught.value.response.headers
    assert ("retry-after-ms" in headers) == (error in ("busy", "overloaded"))
    if error == "context":
        assert "prompt is too long" in caught.value.message


@EACH
@pytest.mark.parametrize("mark", ["[[fail]]", "[[late]]"])
def test_an_error_in_a_stream_is_raised(surface, sdk, mark):
    with pytest.raises(surface.errors.APIError):
        surface.ask(sdk, mark, True)


def one_runs(server):
    wait_until(lambda: metrics.running(server) == 1, 20, "the request running")


def none_runs_after_leaving(server):
    metrics.wait_running(server, 0)
    assert metrics.value(server, "client_disconnects_total") == 1


@EACH
def test_leaving_a_stream_cancels(surface):
    """The script hangs behind its first words: only leaving ends it."""
    with Server(script=SCRIPT) as server:
        answer = surface.create(surface.client(server), "[[hang]]", stream=True)
        next(iter(answer))
        one_runs(server)
        answer.close()
        none_runs_after_leaving(server)


@EACH
def test_leaving_a_whole_answer_cancels(surface):
    with Server(script=SCRIPT) as server:

        def give_up():
            with pytest.raises(surface.errors.APITimeoutError):
                surface.create(surface.client(server, timeout=1), "[[hang]]")

        thread = threading.Thread(target=give_up)
        thread.start()
        one_runs(server)
        thread.join()
        none_runs_after_leaving(server)
