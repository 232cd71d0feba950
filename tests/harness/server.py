"""One sluice server process: started on free ports, watched through /proc, stopped with its log
checked.

A server that printed a sanitizer report, or that ended otherwise than the test said it would,
fails the test that owns
it, whatever else that test looked at.
"""

import contextlib
import ctypes
import json
import os
import re
import select
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from harness import byte_tokenizer, scan

REPOSITORY = Path(__file__).resolve().parents[2]

# A sanitizer build under load on two cores needs seconds, not milliseconds, to bind its ports.
START_SECONDS = 30
STOP_SECONDS = 40

_ADDRESS = {
    "public": re.compile(r"listening on https?://\S+?:(\d+)"),
    "admin": re.compile(r"admin on https?://\S+?:(\d+)"),
}
_REPORTS = re.compile(
    r"(ERROR|WARNING): \w+Sanitizer|runtime error:|check failed",
    re.IGNORECASE,
)


def binary():
    """The sluice binary under test: SLUICE_BIN, else the dev build."""
    return os.environ.get("SLUICE_BIN", str(REPOSITORY / "build/dev/src/app/sluice"))


def environment():
    """Environment of the server: ours without SLUICE_ variables, with sanitizers set to be strict
    and small.
    """
    env = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
    # A small quarantine: the default of 256 MiB would drown every measure of memory growth.
    env.setdefault("ASAN_OPTIONS", "quarantine_size_mb=8:detect_leaks=1:abort_on_error=0")
    env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    env.setdefault("TSAN_OPTIONS", "history_size=2")
    return env


_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def _die_with_us():
    """A test run that is killed leaves no server behind."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def run_cli(*arguments, env=None, cwd=None, timeout=30):
    """Runs `sluice arguments` to its end."""
    done = subprocess.run(
        [binary(), *arguments],
        env=environment() | (env or {}),
        cwd=cwd,
        timeout=timeout,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert not _REPORTS.search(done.stderr), done.stderr
    return done


def script_text(lines):
    """A script file: each line a JSON value, except comments and empty lines."""
    return "".join(
        (x if x == "" or str(x).startswith("//") else json.dumps(x, ensure_ascii=False)) + "\n"
        for x in lines
    )


def wait_until(condition, seconds, what):
    """Asks until `condition` holds; for things that only a question can tell (counters, /proc)."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def _vocabulary_of(model):
    config = json.loads((Path(model) / "config.json").read_text(encoding="utf-8"))
    return config.get("text_config", config)["vocab_size"]


# In options: the folder of golden files.
GOLDEN = Path(__file__).resolve().parents[1] / "golden"


class Server:
    """`with Server(script=[...], options=[...]) as server:` — running inside, stopped and checked
    after.
    """

    def __init__(
        self,
        script=(),
        options=(),
        env=None,
        expect_exit=0,
        ports=True,
        wait=True,
        own_tokenizer=True,
        model=None,
    ):
        self.directory = tempfile.TemporaryDirectory(prefix="sluice-test-")
        self.folder = Path(self.directory.name)
        script_file = self.folder / "script.jsonl"
        script_file.write_text(script_text(script), encoding="utf-8", errors="surrogateescape")
        # A model's folder instead of the script, or below it.
        what = [] if model is None else [str(model)]
        if model is None or script:
            what += ["--script", str(script_file)]
        self.arguments = ["serve", *what]
        if own_tokenizer and "--tokenizer" not in map(str, options):  # one token per byte, to count
            n_tokens = 0 if model is None else _vocabulary_of(model)
            tokenizer = self.folder / "tokenizer.json"
            tokenizer.write_text(byte_tokenizer.text(n_tokens), encoding="utf-8")
            self.arguments += ["--tokenizer", str(tokenizer)]
        if ports:
            self.arguments += ["--port", "0", "--admin-port", "0"]
        self.arguments += [str(x).replace("GOLDEN", str(GOLDEN)) for x in options]
        for flag, value in zip(self.arguments, self.arguments[1:]):
            if flag == "--api-key":
                scan.forbid(value)
        self.env = environment() | (env or {})
        self.expect_exit = expect_exit
        self.port = self.admin_port = None
        self._wait = wait
        self._out = []
        self._changed = threading.Condition()

    def __enter__(self):
        self._stderr = open(self.folder / "stderr", "w+b")
        self.process = subprocess.Popen(
            [binary(), *self.arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=self.env,
            cwd=self.folder,
            preexec_fn=_die_with_us,
        )
        self._reader = threading.Thread(target=self._read_stdout, daemon=True)
        self._reader.start()
        if self._wait:
            try:
                self._read_ports()
            except BaseException:
                self.process.kill()
                self.process.wait()
                raise
        return self

    def _read_stdout(self):
        for line in self.process.stdout:
            with self._changed:
                self._out.append(line.decode("utf-8", "replace"))
                self._changed.notify_all()
        with self._changed:
            self._out.append("")
            self._changed.notify_all()

    def _read_ports(self):
        deadline = time.monotonic() + START_SECONDS
        with self._changed:
            while True:
                text = "".join(self._out)
                found = {k: p.search(text) for k, p in _ADDRESS.items()}
                if all(found.values()):
                    break
                ended = bool(self._out) and self._out[-1] == ""
                left = deadline - time.monotonic()
                assert not ended and left > 0, f"no server: {text}\n{self.stderr()}"
                self._changed.wait(left)
        self.port = int(found["public"].group(1))
        self.admin_port = int(found["admin"].group(1))

    def __exit__(self, kind, *_):
        died = self.process.poll()
        try:
            if died is None:
                self.process.send_signal(signal.SIGTERM)
                try:
                    self.process.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    self.process.kill()
                    self.process.wait()
                    if kind is None:
                        raise AssertionError(
                            "SIGTERM did not end the server\n" + self.log()[-3000:]
                        )
            self._reader.join()
            log = self.log()
            report = _REPORTS.search(log)
            assert report is None, log[max(0, report.start() - 200) : report.start() + 6000]
            if kind is not None and died is not None:
                print(f"the server had ended with {died}:\n{log[-3000:]}")
            if kind is None and self.expect_exit is not None:
                code = self.process.returncode
                assert code == self.expect_exit, f"exit code {code}\n{log[-3000:]}"
        finally:
            self._stderr.close()
            self.directory.cleanup()

    # What it wrote.

    def stdout(self):
        with self._changed:
            return "".join(self._out)

    def stderr(self):
        return (self.folder / "stderr").read_text("utf-8", "replace")

    def log(self):
        return self.stdout() + self.stderr()

    # What it is.

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds=STOP_SECONDS):
        """Waits for the end without asking for it; the exit code."""
        return self.process.wait(seconds)

    def alive(self):
        return self.process.poll() is None

    def rss_bytes(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) * 1024

    def n_descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def is_sanitized(self):
        return b"__asan_init" in _symbols() or b"__tsan_init" in _symbols()


class Shared:
    """A server that many tests use, started for the first. One that died is reported by the test
    that killed it and replaced for the next.
    """

    def __init__(self, **parameters):
        self._parameters = parameters
        self._stack = contextlib.ExitStack()
        self._server = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._stack.close()

    @contextlib.contextmanager
    def lent(self):
        if self._server is None:
            self._server = self._stack.enter_context(Server(**self._parameters))
        yield self._server
        if not self._server.alive():
            self._server = None
            self._stack.close()  # says how it ended
            raise AssertionError("the server ended without being told to")


_symbol_text = None


def _symbols():
    """Enough of the binary to tell a sanitizer build, read once."""
    global _symbol_text
    if _symbol_text is None:
        data = Path(binary()).read_bytes()
        _symbol_text = b" ".join(x for x in (b"__asan_init", b"__tsan_init") if x in data)
    return _symbol_text


def readable(sock, seconds):
    """Whether `sock` has something to read (data or its end) within `seconds`."""
    return bool(select.select([sock], [], [], seconds)[0])
