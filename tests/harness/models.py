"""Models that end-to-end tests serve: one of each family, with what a test must know of them."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.server import REPOSITORY

SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def models_folder():
    """Where `sluice pull` puts what it fetches."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "sluice"


@dataclass(frozen=True)
class Model:
    name: str
    path: Path
    has_tokenizer: bool  # else one of bytes stands in for it

    def is_there(self):
        return self.path.exists()


TINY_A = Model("tiny-a", REPOSITORY / "tests/golden/tiny-a", has_tokenizer=False)
SMOLLM2 = Model("smollm2-135m", models_folder() / SMOLLM2_FILE, has_tokenizer=True)


def need(model):
    """The model, or the test is skipped: where it is not, and where the binary is too slow for it."""
    if model.has_tokenizer and os.environ.get("SLUICE_TEST_TINY_MODELS_ONLY"):
        pytest.skip(f"a sanitizer build takes minutes for what {model.name} is asked")
    if not model.is_there():
        pytest.skip(f"{model.name} is not here: `sluice pull {model.name}` fetches it")
    return model
