import random

import pytest

from harness.server import binary


def pytest_addoption(parser):
    parser.addoption(
        "--seed", type=int, default=None, help="seed of the random tests; printed when one fails"
    )


def pytest_report_header(config):
    return f"sluice under test: {binary()}"


@pytest.fixture
def seed(request):
    """A fresh seed for each random test, printed first; --seed repeats a run."""
    given = request.config.getoption("--seed")
    value = random.SystemRandom().getrandbits(32) if given is None else given
    print(f"seed: {value} (repeat with --seed {value})")
    return value
