"""The command line: help, version, configuration, doctor, and how `serve` refuses to start."""

import json
import os
import re
import socket
import tomllib
from pathlib import Path

import pytest

from harness import raw_http
from harness.server import REPOSITORY, Server, run_cli


def failed(done, *words):
    """It ended with a complaint on stderr that has all of `words`, in one or a few lines."""
    assert done.returncode != 0, done.stdout
    assert done.stdout == "", done.stdout
    for word in words:
        assert word in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) <= 4, done.stderr
    return done


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.jsonl"
    path.write_text('"</think>ok"\n')
    return str(path)


def test_help():
    done = run_cli("--help")
    assert done.returncode == 0 and done.stderr == ""
    for word in ("serve", "config", "doctor"):
        assert word in done.stdout


def test_help_of_serve_names_options_with_defaults_and_limits():
    done = run_cli("serve", "--help")
    assert done.returncode == 0
    for word in (
        "--port",
        "--host",
        "--script",
        "--api-key",
        "--max-body",
        "48MiB",
        "8000",
        "--drain-timeout",
    ):
        assert word in done.stdout, word
    assert all(len(line) <= 100 for line in done.stdout.splitlines())


def test_version():
    for arguments in (["version"], ["--version"]):
        done = run_cli(*arguments)
        assert done.returncode == 0 and re.search(r"\d+\.\d+", done.stdout), done


def test_unknown_command_and_flag(script):
    failed(run_cli("sreve"), "serve")
    failed(run_cli("serve", "--script", script, "--prot", "0"), "--prot", "port")
    failed(run_cli("serve", "--script", script, "stray"), "stray")


@pytest.mark.parametrize(
    "arguments,words",
    [
        (["--port", "65536"], ["port", "65535"]),
        (["--port", "-1"], ["port"]),
        (["--port", "http"], ["port", "http"]),
        (["--port"], ["port"]),
        (["--max-body", "100"], ["max-body", "KiB"]),
        (["--max-body", "99999999999999999999MiB"], ["max-body"]),
        (["--idle-timeout", "10"], ["idle-timeout", "s"]),
        (["--idle-timeout", "-1s"], ["idle-timeout"]),
        (["--idle-timeout", "1parsec"], ["idle-timeout", "parsec"]),
        (["--max-requests", "0"], ["max-requests", "1"]),
        (["--host", "not an address"], ["host"]),
        (["--log-level", "loud"], ["log-level", "debug"]),
        (["--tls-certificate", "/nonexistent/c.pem"], ["tls-key"]),
    ],
)
def test_bad_values_are_named(script, arguments, words):
    ports = [] if "--port" in arguments else ["--port", "0"]
    failed(run_cli("serve", "--script", script, *ports, "--admin-port", "0", *arguments), *words)


def test_serve_without_anything_to_serve():
    failed(run_cli("serve", "--port", "0", "--admin-port", "0"), "--script")


def test_missing_files(script, tmp_path):
    ports = ["--port", "0", "--admin-port", "0"]
    failed(run_cli("serve", "--script", str(tmp_path / "none.jsonl"), *ports), "none.jsonl")
    failed(
        run_cli("serve", "--script", script, "--api-keys-file", str(tmp_path / "no-keys"), *ports),
        "no-keys",
    )
    failed(run_cli("serve", "--script", str(tmp_path), *ports), tmp_path.name)
    missing = [str(tmp_path / "c.pem"), "--tls-key", str(tmp_path / "k.pem")]
    failed(run_cli("serve", "--script", script, "--tls-certificate", *missing, *ports), "c.pem")


@pytest.mark.parametrize(
    "line,words",
    [
        ('{"out": "a", "ids": [1]}', ["line 3"]),
        ("{}", ["line 3"]),
        ('{"out": "a", "owt": 1}', ["line 3", "owt"]),
        ('{"out": 1}', ["line 3", "out"]),
        ('{"ids": [999999999]}', ["line 3", "ids"]),
        ('{"ids": [-1]}', ["line 3", "ids"]),
        ('{"ids": "a"}', ["line 3", "ids"]),
        ('{"out": "a", "times": -1}', ["line 3", "times"]),
        ('{"out": "a", "times": "twice"}', ["line 3", "times"]),
        ('{"out": "a", "tokens_per_event": 0}', ["line 3", "tokens_per_event"]),
        ('{"out": "a", "pace_ms": -1}', ["line 3", "pace_ms"]),
        ('{"out": "a", "logprob": 0.5}', ["line 3", "logprob"]),
        ('{"out": "a", "fail_after": 1, "hang_after": 2}', ["line 3", "_after"]),
        ('{"out": "a", "fail_after": -1}', ["line 3", "fail_after"]),
        ('{"refuse": "tired"}', ["line 3", "tired"]),
        ('{"refuse": "overloaded", "out": "a"}', ["line 3"]),
        ('{"out": "a", "when": {"mood": 1}}', ["line 3", "mood"]),
        ('{"out": "a", "when": {"api": "smoke"}}', ["line 3", "smoke"]),
        ("[1]", ["line 3"]),
        ("{", ["line 3"]),
    ],
)
def test_bad_script_names_line_and_key(tmp_path, line, words):
    path = tmp_path / "bad.jsonl"
    path.write_text(f'// a comment\n"fine"\n{line}\n')
    failed(run_cli("serve", "--script", str(path), "--port", "0", "--admin-port", "0"), *words)


def test_comments_and_empty_lines_of_a_script():
    lines = ["// first", "", "</think>a", "// last", ""]
    with Server(script=lines):
        pass


def test_busy_port(script):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        failed(run_cli("serve", "--script", script, "--port", port, "--admin-port", "0"), port)
        failed(run_cli("serve", "--script", script, "--port", "0", "--admin-port", port), port)


def test_address_for_others_needs_a_key(script):
    ports = ["--port", "0", "--admin-port", "0"]
    failed(
        run_cli("serve", "--script", script, "--host", "0.0.0.0", *ports), "allow-no-key", "api-key"
    )
    for more in (["--api-key", "a-key-for-others-1"], ["--allow-no-key"]):
        with Server(options=["--host", "0.0.0.0", *more]):
            pass


# The configuration file.


def check(tmp_path, text):
    path = tmp_path / "sluice.toml"
    path.write_text(text)
    return run_cli("config", "check", str(path))


def test_good_config(tmp_path):
    done = check(tmp_path, 'port = 8080\nmax-body = "1MiB"\nidle-timeout = "5s"\nstrict = true\n')
    assert done.returncode == 0, done.stderr


def test_empty_config(tmp_path):
    assert check(tmp_path, "# nothing\n").returncode == 0


@pytest.mark.parametrize(
    "text,words",
    [
        ("prot = 1\n", ["prot", "port"]),
        ("port = 1\nmax_body = 1\n", ["max_body", "max-body"]),
        ("max-body = 1048576\n", ["max-body", "MiB"]),
        ("idle-timeout = 5\n", ["idle-timeout", "5"]),
        ('port = "80"\n', ["port"]),
        ("port = 99999\n", ["port", "65535"]),
        ("port = \n", ["1"]),
        ('strict = "yes"\n', ["strict"]),
        ("[table]\nport = 1\n", ["table"]),
        ("port = 1\nport = 2\n", ["port"]),
        ('variant = "avx3"\n', ["variant", "avx3"]),
        ('variant = "linaer:ref"\n', ["variant", "linaer"]),
    ],
)
def test_bad_config(tmp_path, text, words):
    done = check(tmp_path, text)
    assert done.returncode != 0
    for word in words:
        assert word in done.stderr, done.stderr


def test_missing_config_file(tmp_path):
    failed(run_cli("config", "check", str(tmp_path / "none.toml")), "none.toml")


def test_print_config_round_trip(tmp_path, script):
    flags = [
        "--script",
        script,
        "--port",
        "8123",
        "--max-body",
        "3MiB",
        "--heartbeat",
        "1500ms",
        "--strict",
        "--api-key",
        "never-printed-1",
    ]
    first = run_cli("serve", *flags, "--print-config")
    assert first.returncode == 0, first.stderr
    assert "never-printed-1" not in first.stdout
    values = tomllib.loads(first.stdout)
    assert values["port"] == 8123 and values["max-body"] == "3MiB" and values["strict"] is True
    path = tmp_path / "printed.toml"
    path.write_text("\n".join(x for x in first.stdout.splitlines() if not x.startswith("api-key")))
    assert run_cli("config", "check", str(path)).returncode == 0
    again = run_cli("serve", "--config", str(path), "--print-config")
    kept = {k: v for k, v in values.items() if k != "api-key"}
    assert {k: v for k, v in tomllib.loads(again.stdout).items() if k != "api-key"} == kept


def test_flag_beats_environment_beats_file(tmp_path, script):
    path = tmp_path / "sluice.toml"
    path.write_text("max-requests = 1\nmax-connections = 1\nadmin-port = 1\n")
    env = {"SLUICE_MAX_REQUESTS": "2", "SLUICE_MAX_CONNECTIONS": "2"}
    done = run_cli(
        "serve",
        "--config",
        str(path),
        "--max-requests",
        "3",
        "--script",
        script,
        "--print-config",
        env=env,
    )
    values = tomllib.loads(done.stdout)
    assert (values["max-requests"], values["max-connections"], values["admin-port"]) == (3, 2, 1)


def test_unknown_environment_variable_is_refused(script):
    done = run_cli("serve", "--script", script, "--print-config", env={"SLUICE_PROT": "1"})
    failed(done, "SLUICE_PROT", "SLUICE_PORT")


# doctor.


def test_doctor_path_is_the_hop_table():
    done = run_cli("doctor", "path")
    assert done.returncode == 0
    for zone in re.findall(
        r'SLUICE_ZONE\(k\w+, "([\w.]+)"', (REPOSITORY / "src/base/trace.def").read_text()
    ):
        assert zone in done.stdout, zone


CHECKS = ["cpu", "cores", "memory", "disk", "huge pages", "open files", "port", "admin port", "clock"]


def checkup(*arguments):
    done = run_cli("doctor", *arguments, "--json")
    checks = {check["check"]: check for check in json.loads(done.stdout)}
    for check in checks.values():
        assert (check["remedy"] is None) == (check["verdict"] == "pass"), check
    fails = any(check["verdict"] == "fail" for check in checks.values())
    assert done.returncode == (1 if fails else 0)
    return checks


def test_doctor_looks_at_the_machine():
    checks = checkup("--port", "0", "--admin-port", "0")
    assert list(checks) == CHECKS
    assert checks["port"]["verdict"] == "pass"
    has_avx2 = re.search(r"^flags.*\bavx2\b", Path("/proc/cpuinfo").read_text(), re.M)
    assert checks["cpu"]["verdict"] == ("pass" if has_avx2 else "warn")
    assert checks["cores"]["finding"].startswith(f"{len(os.sched_getaffinity(0))} usable")
    text = run_cli("doctor", "--port", "0", "--admin-port", "-1").stdout
    assert [line[6:16].strip() for line in text.splitlines() if line[:4].strip()] == CHECKS


def test_doctor_sees_a_taken_port_and_a_low_limit():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        checks = checkup("--port", port, "--admin-port", "0")
        assert checks["port"]["verdict"] == "fail" and port in checks["port"]["finding"]
        assert "--port" in checks["port"]["remedy"]
    checks = checkup("--port", "0", "--admin-port", "0", "--max-connections", "1000000")
    assert checks["open files"]["verdict"] == "warn"
    assert "1000128" in checks["open files"]["remedy"]


def test_doctor_knows_whether_a_model_fits(tmp_path):
    ports = ["--port", "0", "--admin-port", "0"]
    checks = checkup(str(REPOSITORY / "tests/golden/tiny-a"), *ports)
    assert checks["model"]["verdict"] == "pass"
    assert "model.safetensors" in checks["disk"]["finding"]
    (tmp_path / "empty").mkdir()
    (tmp_path / "no-model.gguf").write_text("hello")
    for path in ("no/such", str(tmp_path / "empty"), str(tmp_path / "no-model.gguf")):
        checks = checkup(path, *ports)
        assert checks["model"]["verdict"] == "fail" and path in checks["model"]["finding"]


def test_doctor_counts_the_memory_that_options_ask_for():
    def needed(*options):
        checks = checkup(str(REPOSITORY / "tests/golden/tiny-a"), "--port", "0", "--admin-port", "0", *options)
        return float(re.search(r"needs ([\d.]+) GB", checks["model"]["finding"])[1])

    assert needed("--kv-memory", "64GiB") > 68 > 1 > needed()
    assert needed("--context", "128") < needed()


def test_doctor_refuses_what_serve_would():
    done = run_cli("doctor", "--nonsense", "1")
    assert done.returncode == 2 and "nonsense" in done.stderr
    help_text = run_cli("doctor", "--help").stdout
    assert "limits" in help_text and "path" in help_text and "MODEL" in help_text


def test_without_a_tokenizer_tokens_are_those_of_the_built_in_one():
    with Server(script=["</think>Hello"], own_tokenizer=False) as server:
        answer = raw_http.once(server.port, raw_http.chat_request("hi"))
    usage = json.loads(answer.body)["usage"]
    # As a token per byte it would be 98 and 6.
    assert 10 < usage["prompt_tokens"] < 60
    assert 1 < usage["completion_tokens"] < 6


@pytest.mark.parametrize("text, word", [("{}", "model"), ("no json", "JSON")])
def test_a_tokenizer_that_is_none_is_named(script, tmp_path, text, word):
    path = tmp_path / "tokenizer.json"
    path.write_text(text)
    failed(run_cli("serve", "--script", script, "--tokenizer", str(path)), str(path), word)


def test_doctor_tells_what_each_operator_runs_in_and_why():
    rows = json.loads(run_cli("doctor", "cpu", "--json").stdout)
    assert {row["operator"] for row in rows} >= {"linear", "block_linear"}
    assert all(row["used"] in row["of"].split(", ") and row["of"].endswith("ref") for row in rows)
    lowered = json.loads(run_cli("doctor", "cpu", "--json", "--variant", "ref").stdout)
    assert {row["used"] for row in lowered} == {"ref"}
    for value, word in (("amx", "'amx' is not allowed"), ("linaer:ref", "linaer"), ("linear:", "'linear:'")):
        done = run_cli("doctor", "cpu", "--variant", value)
        assert done.returncode == 2 and word in done.stderr and "variant" in done.stderr, done.stderr


def test_a_name_that_no_model_has_is_told_with_where_names_are():
    for command in (["serve", "--model", "smollm", "--port", "0"], ["inspect", "smollm"], ["generate", "smollm", "--prompt", "a"]):
        done = run_cli(*command)
        assert done.returncode != 0 and "smollm is no folder" in done.stderr and "sluice pull" in done.stderr, done.stderr


def test_every_command_has_help():
    names = re.findall(r"^  (\S+) ", run_cli("--help").stdout, re.M)
    assert len(names) > 10
    for name in names:
        done = run_cli(name, "--help")
        assert done.returncode == 0 and "usage" in done.stdout, (name, done)
