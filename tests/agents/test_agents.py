"""Unmodified coding agents finish a scripted loop of turns that edits files, each through its API.

The script plays the model: each turn is one call of a tool, written as the model writes it. What the agents do with it is
theirs; the files they leave behind and the number of requests they needed are what is checked.
"""

import json
import os
import subprocess
import sys

import pytest

from agents import in_namespace
from harness.server import binary

N_TURNS = 20
N_TURNS_SLOW = 6  # of agents that take seconds for a turn
TIMEOUT_S = 240

DSML = "｜DSML｜"


def call(name, **arguments):
    """One call as the model writes it (spec recipe.md §3.7)."""

    def parameter(key, value):
        is_text = isinstance(value, str)
        text = value if is_text else json.dumps(value)
        return f'<{DSML} parameter name="{key}" string="{str(is_text).lower()}">{text}</{DSML} parameter>\n'

    parameters = "".join(parameter(key, value) for key, value in arguments.items())
    invoke = f'<{DSML} invoke name="{name}">\n{parameters}</{DSML} invoke>'
    return f"\n\n<{DSML} calls>\n{invoke}\n</{DSML} calls>"


def script(tool, calls):
    """The turns in order for requests that offer `tool`; anything else an agent asks gets a few words."""
    lines = [{"when": {"tool": tool}, "out": f"Turn {i}.</think>Working.{text}"} for i, text in enumerate(calls)]
    lines.append({"when": {"tool": tool}, "out": "Done.</think>All turns are done."})
    lines.append({"when": {"tools": False}, "times": "always", "out": "</think>Counting"})
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


class Run:
    def __init__(self, folder):
        self.folder = folder
        self.home = folder / "home"
        self.work = folder / "work"
        self.home.mkdir()
        self.work.mkdir()

    def __call__(self, agent, environment, lines, options=()):
        script_file = self.folder / "script.jsonl"
        script_file.write_text(lines, encoding="utf-8")
        plan = {
            "server": [str(binary()), "serve", "--port", "0", "--script", str(script_file), "--trace", *options],
            "agent": [str(word) for word in agent],
            "folder": str(self.work),
            "environment": {"HOME": str(self.home), "TERM": "dumb", **environment},
            "timeout_s": TIMEOUT_S,
        }
        plan_file = self.folder / "plan.json"
        plan_file.write_text(json.dumps(plan), encoding="utf-8")
        # Of its own processes too: what an agent leaves running ends with it.
        alone = ["--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
        command = ["unshare", *alone, sys.executable, in_namespace.__file__, str(plan_file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S + 60)
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["status"] == 0, result
        assert "SCRIPT EXHAUSTED" not in result["output"], result["output"]
        return result


@pytest.fixture
def run(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("a network namespace needs root")
    return Run(tmp_path)


def check_edits(run, result, n_turns):
    """The first turn writes the file, each further one counts up, the last copies it."""
    assert "All turns are done." in result["output"]
    for name in ("count.txt", "count.txt.copy"):
        assert (run.work / name).read_text() == f"count: {n_turns - 2}\n"


def test_claude_code_edits_a_file_in_twenty_turns_over_messages(agents, run):
    path = str(run.work / "count.txt")
    calls = [call("Write", file_path=path, content="count: 0\n")]
    for i in range(N_TURNS - 2):
        edit = {"old_string": f"count: {i}", "new_string": f"count: {i + 1}", "replace_all": False}
        calls.append(call("Edit", file_path=path, **edit))
    calls.append(call("Bash", command=f"cp {path} {path}.copy", description="Copy the file"))
    environment = {
        "ANTHROPIC_BASE_URL": "@URL@",
        "ANTHROPIC_AUTH_TOKEN": "key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }
    agent = [agents / "claude", "-p", "Count to eighteen in count.txt.", "--model", "deepseek-flash"]
    result = run([*agent, "--dangerously-skip-permissions"], environment, script("Write", calls))
    check_edits(run, result, N_TURNS)


def codex(agents, run, *settings):
    """The command of a run without questions, and its environment."""
    folder = run.home / ".codex"
    folder.mkdir()
    (folder / "config.toml").write_text(
        'model = "deepseek-flash"\nmodel_provider = "sluice"\n[model_providers.sluice]\nname = "sluice"\n'
        'base_url = "@URL@/v1"\nenv_key = "SLUICE_KEY"\nwire_api = "responses"\n'
    )
    agent = [agents / "codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    for setting in ('base_url="@URL@/v1"', *settings):
        agent += ["-c", f"model_providers.sluice.{setting}"]
    return agent, {"SLUICE_KEY": "key"}


def test_c25_codex_waits_through_a_silence_inside_an_item(agents, run):
    """codex#31539: "SSE comments are sent, client still times out". The silences are longer than its idle limit."""
    slow = {"when": {"tool": "exec_command"}, "out": "Let me think.</think>All done now.", "pace_ms": 2500}
    agent, environment = codex(agents, run, "stream_idle_timeout_ms=1500", "stream_max_retries=0")
    lines = json.dumps(slow | {"tokens_per_event": 4}) + "\n"
    result = run([*agent, "Go."], environment, lines, options=["--heartbeat", "300ms"])
    assert "All done now." in result["output"]
    assert "idle timeout" not in result["errors"]


def test_codex_edits_a_file_in_twenty_turns_over_responses(agents, run):
    calls = [call("exec_command", cmd="printf 'count: 0\\n' > count.txt")]
    for i in range(N_TURNS - 2):
        calls.append(call("exec_command", cmd=f"sed -i 's/count: {i}$/count: {i + 1}/' count.txt && cat count.txt"))
    calls.append(call("exec_command", cmd="cp count.txt count.txt.copy", yield_time_ms=1000))
    agent, environment = codex(agents, run)
    result = run([*agent, "Count."], environment, script("exec_command", calls))
    check_edits(run, result, N_TURNS)


PI_APIS = {
    "chat": ("openai-completions", "/v1"),
    "messages": ("anthropic-messages", ""),
    "responses": ("openai-responses", "/v1"),
}


@pytest.mark.parametrize("api", PI_APIS)
def test_pi_edits_a_file_in_twenty_turns_over_each_api(agents, run, api):
    calls = [call("write", path="count.txt", content="count: 0\n")]
    for i in range(N_TURNS - 2):
        edits = [{"oldText": f"count: {i}\n", "newText": f"count: {i + 1}\n"}]
        calls.append(call("edit", path="count.txt", edits=edits))
    calls.append(call("bash", command="cp count.txt count.txt.copy", timeout=10))
    kind, path = PI_APIS[api]
    # pi reads the address from a file; the port is known only in the namespace.
    models = {"api": kind, "apiKey": "key", "models": [{"id": "deepseek-flash", "reasoning": True}]}
    settings = run.home / ".pi" / "agent"
    settings.mkdir(parents=True)
    text = json.dumps({"providers": {"sluice": {"baseUrl": f"@URL@{path}", **models}}})
    write = f"cat > {settings}/models.json <<'END'\n{text}\nEND\n"
    start = f'exec {agents / "pi"} --provider sluice --model deepseek-flash -p "Count to eighteen."'
    result = run(["sh", "-c", write + start], {}, script("write", calls))
    check_edits(run, result, N_TURNS)


def test_opencode_edits_a_file_in_six_turns_over_chat(agents, run):
    path = str(run.work / "count.txt")
    calls = [call("write", filePath=path, content="count: 0\n")]
    for i in range(N_TURNS_SLOW - 2):
        calls.append(call("edit", filePath=path, oldString=f"count: {i}", newString=f"count: {i + 1}"))
    calls.append(call("bash", command=f"cp {path} {path}.copy", description="Copy the file"))
    settings = {
        "model": "sluice/deepseek-flash",
        "provider": {
            "sluice": {
                "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": "{env:SLUICE_URL}", "apiKey": "{env:SLUICE_API_KEY}"},
                "models": {"deepseek-flash": {"interleaved": {"field": "reasoning_content"}}},
            }
        },
    }
    (run.work / "opencode.json").write_text(json.dumps(settings))
    environment = {"SLUICE_URL": "@URL@/v1", "SLUICE_API_KEY": "key"}
    agent = [agents / "opencode", "run", "--auto", "Count to four in count.txt."]
    result = run(agent, environment, script("write", calls))
    check_edits(run, result, N_TURNS_SLOW)


def test_cline_edits_a_file_in_six_turns_over_chat(agents, run):
    path = str(run.work / "count.txt")
    calls = [call("editor", path=path, new_text="count: 0\n")]
    for i in range(N_TURNS_SLOW - 2):
        calls.append(call("editor", path=path, old_text=f"count: {i}", new_text=f"count: {i + 1}"))
    calls.append(call("run_commands", commands=[f"cp {path} {path}.copy"]))
    cline = agents / "cline"
    sign_in = f"{cline} auth openai --baseurl @URL@/v1 --apikey key --modelid deepseek-flash"
    agent = ["sh", "-c", f'{sign_in} && exec {cline} "Count to four in count.txt."']
    result = run(agent, {}, script("editor", calls))
    check_edits(run, result, N_TURNS_SLOW)
