"""The official SDKs for Node, each a program of its own, against the script of battery.py."""

import shutil
import subprocess
from pathlib import Path

import pytest

from agents.battery import SCRIPT
from harness.server import Server

HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize("program, path", [("sdk_openai.mjs", "/v1"), ("sdk_anthropic.mjs", "")])
def test_every_case_of_the_battery_passes(agents, program, path):
    # Node looks for packages beside the program.
    shutil.copy(HERE / program, agents.parents[1] / program)
    with Server(script=SCRIPT) as server:
        command = ["node", agents.parents[1] / program, f"http://127.0.0.1:{server.port}{path}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
