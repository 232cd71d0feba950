import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
INSTALLED = HERE.parents[1] / "build" / "agents"


@pytest.fixture(scope="session")
def agents():
    """npm's folder of the pinned agents; installed once, and again when a version changes."""
    INSTALLED.mkdir(parents=True, exist_ok=True)
    wanted, installed = HERE / "package.json", INSTALLED / "package.json"
    done = INSTALLED / "done"
    if not done.exists() or installed.read_bytes() != wanted.read_bytes():
        done.unlink(missing_ok=True)
        shutil.copy(wanted, installed)
        npm = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        subprocess.run(npm, cwd=INSTALLED, check=True, timeout=900)
        claude = INSTALLED / "node_modules/@anthropic-ai/claude-code/install.cjs"
        subprocess.run(["node", claude], check=True, timeout=300)
        done.touch()
    return INSTALLED / "node_modules" / ".bin"
