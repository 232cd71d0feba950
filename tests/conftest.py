import random
import subprocess

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


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """Options of a server with a self-signed certificate."""
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    command += " -days 2 -subj /CN=localhost"
    files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    return ["--tls-certificate", folder / "cert.pem", "--tls-key", folder / "key.pem"]
