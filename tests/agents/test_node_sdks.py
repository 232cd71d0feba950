"""The official SDKs for Node, each a program of its own, against the script of battery.py."""

import shutil
import subprocess
from pathlib import Path

import pytest

from agents.battery import OPTIONS, RIGHT_KEY, SCRIPT
from harness.server import Server

HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize("program, path", [("sdk_openai.mjs", "/v1"), ("sdk_anthropic.mjs", "")])
def test_every_case_of_the_battery_passes(agents, program, path):
    # Node looks for packages beside the program.
    for file in (program, "sdk_matrix.mjs"):
        shutil.copy(HERE / file, agents.parents[1] / file)
    with Server(script=SCRIPT, options=OPTIONS) as server:
        host = "http://127.0.0.1"
        addresses = [f"{host}:{server.port}{path}", f"{host}:{server.admin_port}"]
        command = ["node", agents.parents[1] / program, *addresses, RIGHT_KEY]
        done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
