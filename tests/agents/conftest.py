import fcntl
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
INSTALLED = HERE.parents[1] / "build" / "agents"
# What npm would run of the packages' own: it puts the binary of this machine into its place.
OWN_STEPS = {
    "@anthropic-ai/claude-code": "install.cjs",
    "opencode-ai": "postinstall.mjs",
    "cline": "postinstall.mjs",
}


@pytest.fixture(scope="session")
def agents():
    """npm's folder of the pinned agents; installed once, and again when a version changes.

    Several test processes may want it at once: the first one installs, the others wait.
    """
    INSTALLED.mkdir(parents=True, exist_ok=True)
    with open(INSTALLED / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        install()
    return INSTALLED / "node_modules" / ".bin"


def install():
    wanted, installed = HERE / "package.json", INSTALLED / "package.json"
    done = INSTALLED / "done"
    if done.exists() and installed.read_bytes() == wanted.read_bytes():
        return
    done.unlink(missing_ok=True)
    shutil.copy(wanted, installed)
    npm = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    subprocess.run(npm, cwd=INSTALLED, check=True, timeout=900)
    for package, step in OWN_STEPS.items():
        folder = INSTALLED / "node_modules" / package
        subprocess.run(["node", step], cwd=folder, check=True, timeout=300)
    done.touch()
