"""`sluice chat`: a talk on a terminal, and one question without one."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import termios
import time

import pytest

from harness import byte_tokenizer
from harness.server import REPOSITORY, binary, environment, run_cli, script_text, wait_until

TINY = REPOSITORY / "tests/golden/tiny-a"
CALL = (
    'Hm.</think>So.\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name="look">\n'
    '<｜DSML｜ parameter name="x" string="false">1</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>'
)
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
ECHO = [
    {"when": {"last": "slow"}, "times": "always", "out": "</think>" + "word " * 400, "pace_ms": 20},
    {"when": {"last": "hang"}, "times": "always", "out": "</think>x", "hang_after": 0},
    {"when": {"last": "boom"}, "times": "always", "out": "</think>x", "fail_after": 0},
    {"when": {"last": "escape"}, "times": "always", "out": "</think>a\x1b[31mb\x07"},
    {"when": {"prompt": "earlier"}, "times": "always", "out": "</think>I remember."},
    {"times": "always", "out": "I think so.</think>Hello, Grüße."},
]


def files(folder, script, *options):
    path = folder / "script.jsonl"
    path.write_text(script_text(script), encoding="utf-8")
    return ["chat", "--script", str(path), *options]


def _take_terminal():
    """Ctrl-C goes to who has the terminal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """The program on a terminal of its own."""

    def __init__(self, arguments):
        self.parent, child = pty.openpty()
        termios.tcsetwinsize(child, (40, 200))
        self.process = subprocess.Popen(
            [binary(), *arguments], stdin=child, stdout=child, stderr=child, start_new_session=True,
            env=environment() | {"TERM": "dumb"}, preexec_fn=_take_terminal,
        )  # fmt: skip
        os.close(child)
        self.shown = ""
        self._at = 0

    def read_until(self, pattern, seconds=20):
        """What is shown up to and with `pattern`, from where the last one ended."""
        deadline = time.monotonic() + seconds
        while not (found := re.search(pattern, self.shown[self._at :])):
            left = deadline - time.monotonic()
            assert left > 0, f"no {pattern!r} in {self.shown[self._at:]!r}"
            if select.select([self.parent], [], [], left)[0]:
                try:
                    piece = os.read(self.parent, 65536)
                except OSError:
                    piece = b""
                assert piece, f"it ended without {pattern!r}: {self.shown[self._at:]!r}"
                self.shown += piece.decode("utf-8", "replace")
        begin, self._at = self._at, self._at + found.end()
        return self.shown[begin : self._at]

    def type(self, text):
        os.write(self.parent, text.encode())

    def say(self, line):
        self.type(line + "\n")

    def end_of_input(self):
        """Ctrl-D, once the editor has the terminal: before that the system would take it and forget it."""
        local_modes = 3
        wait_until(
            lambda: not termios.tcgetattr(self.parent)[local_modes] & termios.ICANON, 10, "the editor"
        )
        self.type("\x04")

    def end(self):
        code = self.process.wait(20)
        os.close(self.parent)
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def terminal(tmp_path):
    with Terminal(files(tmp_path, ECHO)) as running:
        running.read_until("> ")
        yield running


def test_a_turn_shows_dimmed_reasoning_and_the_answer(terminal):
    terminal.say("hi")
    turn = terminal.read_until(r"tokens/s\x1b\[0m\r\n")
    assert "\x1b[2mI" in turn and "Hello, Grüße." in turn, turn
    assert re.search(r"\d+ tokens in, \d+ out", turn)
    terminal.read_until("> ")
    terminal.end_of_input()
    assert terminal.end() == 0


def test_history_goes_along_until_it_is_cleared(terminal):
    terminal.say("earlier")
    terminal.read_until("I remember.*> ".replace(".*", r"[\s\S]*"))
    terminal.say("again")
    terminal.read_until(r"I remember[\s\S]*> ")
    terminal.say("/clear")
    terminal.read_until("> ")
    terminal.say("again")
    terminal.read_until(r"Hello, Grüße[\s\S]*> ")
    terminal.say("/quit")
    assert terminal.end() == 0


def test_ctrl_c_ends_the_answer_and_not_the_program(terminal):
    for text in ("slow", "hang"):
        terminal.say(text)
        if text == "slow":
            terminal.read_until("word word")
        else:
            terminal.read_until("hang\r\n")
            time.sleep(0.3)
        terminal.type("\x03")
        terminal.read_until(r"cancelled[\s\S]*> ")
    terminal.say("hi")
    terminal.read_until(r"Hello, Grüße[\s\S]*> ")
    terminal.type("\x03")
    terminal.read_until("once more leaves[\\s\\S]*> ")
    terminal.type("half a line\x03")
    terminal.read_until(r"\^C\r\n[\s\S]*> ")
    terminal.type("\x03")
    terminal.read_until("once more leaves[\\s\\S]*> ")
    terminal.type("\x03")
    assert terminal.end() == 0


def test_commands(terminal):
    terminal.say("/help")
    assert "/clear" in terminal.read_until("/quit[\\s\\S]*> ")
    terminal.say("/nothing")
    terminal.read_until("there is no /nothing[\\s\\S]*> ")
    terminal.say("/think sometimes")
    terminal.read_until("/think takes on, off[\\s\\S]*> ")
    terminal.say("/think off")
    terminal.read_until("> ")
    terminal.say("hi")
    turn = terminal.read_until(r"tokens/s")
    assert "Hello" in turn and "I think so" not in turn
    terminal.say("/think 30")
    terminal.read_until("> ")
    terminal.say("/system earlier")
    terminal.read_until("> ")
    terminal.say("hi")
    terminal.read_until("I remember")


def test_a_turn_that_fails_is_forgotten_and_the_talk_goes_on(terminal):
    terminal.say("boom earlier")
    terminal.read_until(r"sluice chat: [\s\S]*> ")
    terminal.say("hi")
    terminal.read_until("Hello, Grüße")


def test_what_a_model_says_cannot_steer_the_terminal(terminal):
    terminal.say("escape")
    turn = terminal.read_until("tokens/s")
    assert r"a\x1b[31mb\x07" in turn and "\x1b[31m" not in turn


def test_lines_can_be_edited_and_come_again(terminal):
    terminal.type("hix\x7f earlie\x01\x05r\n")  # a deletion, to the begin, to the end
    terminal.read_until(r"I remember[\s\S]*> ")
    terminal.say("/clear")
    terminal.read_until("> ")
    terminal.type("\x10\x10\n")  # the line before the last
    terminal.read_until("I remember")


def test_calls_are_shown_and_their_results_asked_for(tmp_path):
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps(TOOLS))
    script = [
        {"when": {"last": "it is 7"}, "out": "Aha.</think>Seven."},
        {"when": {"tool": "look"}, "out": CALL},
    ]
    with Terminal(files(tmp_path, script, "--tools", str(tools))) as terminal:
        terminal.read_until("> ")
        terminal.say("look")
        assert '[call] look {"x": 1}' in terminal.read_until("look gives> ")
        terminal.say("it is 7")
        terminal.read_until(r"Seven\.[\s\S]*> ")
        terminal.end_of_input()
        assert terminal.end() == 0


def test_one_question(tmp_path):
    done = run_cli(*files(tmp_path, ECHO, "--once", "hi"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello, Grüße.\n", "")
    done = run_cli(*files(tmp_path, ECHO, "--once", "hi", "--system", "earlier"))
    assert done.stdout == "I remember.\n"
    done = run_cli(*files(tmp_path, ECHO, "--once", "boom"))
    assert done.returncode == 1 and done.stdout == "" and done.stderr.startswith("sluice chat: ")


def test_lines_of_a_file_are_a_talk(tmp_path):
    done = subprocess.run(
        [binary(), *files(tmp_path, ECHO)], input="hi\n\nearlier\nboom\nx", env=environment(),
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout == "Hello, Grüße.\nI remember.\nI remember.\n", done


def test_ctrl_c_ends_one_question(tmp_path):
    process = subprocess.Popen(
        [binary(), *files(tmp_path, ECHO, "--once", "slow")], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environment(), text=True,
    )  # fmt: skip
    assert process.stdout.read(4) == "word"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 1 and "cancelled" in stderr


def test_a_model_answers(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(TINY, folder)
    n_tokens = json.loads((folder / "config.json").read_text())["text_config"]["vocab_size"]
    (folder / "tokenizer.json").write_text(byte_tokenizer.text(n_tokens), encoding="utf-8")
    options = ["--once", "hi", "--think", "off", "--max-tokens", "8", "--temperature", "0", "--threads", "1"]
    first = run_cli("chat", str(folder), *options)
    assert first.returncode == 0 and first.stdout, first
    assert run_cli("chat", str(folder), *options).stdout == first.stdout


@pytest.mark.parametrize(
    "arguments,word",
    [([], "MODEL"), (["--script-engine"], "MODEL"), (["--script", "x", "--onec", "a"], "--once")],
)
def test_wrong_usage(arguments, word):
    done = run_cli("chat", *arguments)
    assert done.returncode == 2 and done.stdout == "" and word in done.stderr, done
