"""`sluice generate`: a prompt of ids or of text, and the answer in the same form."""

import json
import shutil

import pytest

from harness.server import REPOSITORY, run_cli

GOLDEN = REPOSITORY / "tests/golden"
N_CONTROL = 19  # named tokens at the end of a cut vocabulary


def cut_tokenizer(n_tokens):
    """The tokenizer of the golden cases with fewer merges: ids below n_tokens - 19 stay as they are."""
    file = json.loads((GOLDEN / "tokenizer/tokenizer.json").read_text())
    n_plain = n_tokens - N_CONTROL
    model = file["model"]
    model["vocab"] = {text: i for text, i in model["vocab"].items() if i < n_plain}
    model["merges"] = model["merges"][: n_plain - 259]
    for i, token in enumerate(file["added_tokens"][-N_CONTROL:]):
        token["id"] = n_plain + i
    return file


def text_of(ids, file):
    """What is printed for ids, by a second reading of the format: broken bytes as U+FFFD, but not at the end."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    byte_of = {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(others)}
    plain = {i: bytes(byte_of[c] for c in text) for text, i in file["model"]["vocab"].items() if i > 2}
    added = {token["id"]: token["content"] for token in file["added_tokens"]}
    text, run = "", b""
    for i in ids:
        if i in added:
            text += run.decode(errors="replace") + added[i]
            run = b""
        else:
            run += plain[i]
    return text + run.decode(errors="replace").rstrip("\ufffd")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """tiny-a with a tokenizer of its 512 tokens."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    folder.mkdir()
    for path in (GOLDEN / "tiny-a").iterdir():
        if not path.name.startswith(("golden", "tokens")):
            shutil.copy(path, folder)
    (folder / "tokenizer.json").write_text(json.dumps(cut_tokenizer(512)))
    return folder


def test_text_and_ids_go_on_alike(model, tmp_path):
    file = cut_tokenizer(512)
    id_of = file["model"]["vocab"] | {token["content"]: token["id"] for token in file["added_tokens"]}
    # Three pieces of one byte each, behind a control token that is spelled, and begin of sentence.
    ids = [0, *(id_of[text] for text in ("</think>", "Q", "7", "~"))]
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps(ids))
    options = ("--max-tokens", "8", "--temperature", "1", "--seed", "4")
    answer = run_cli("generate", str(model), "--prompt", "</think>Q7~", *options)
    assert answer.returncode == 0, answer
    same = run_cli("generate", str(model), "--tokens", str(tokens), *options)
    assert same.returncode == 0, same
    answered = json.loads(same.stdout)
    assert len(answered) == 8 or answered[-1] == 1
    assert answer.stdout == text_of([i for i in answered if i != 1], file) + "\n"


def refused(done, *words):
    assert done.returncode != 0 and done.stdout == "", done
    for word in words:
        assert word in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) <= 4, done.stderr


def test_exactly_one_prompt_is_wanted(model):
    refused(run_cli("generate", str(model)), "--prompt", "--tokens")
    refused(run_cli("generate", str(model), "--prompt", "a", "--tokens", "x"), "--prompt", "--tokens")


def test_a_prompt_of_text_needs_the_tokenizer_of_the_model(model, tmp_path):
    refused(run_cli("generate", str(GOLDEN / "tiny-a"), "--prompt", "a"), "tokenizer.json", "--tokens")
    other = tmp_path / "other"
    shutil.copytree(model, other)
    shutil.copy(GOLDEN / "tokenizer/tokenizer.json", other)
    refused(run_cli("generate", str(other), "--prompt", "a"), "4096", "512")
    (other / "tokenizer.json").write_text("{}")
    refused(run_cli("generate", str(other), "--prompt", "a"), "tokenizer.json", "model.type")


def test_a_prompt_may_have_several_lines(model):
    """Symptom: "prompt = a\\n\\tb (flag --prompt) is not allowed"."""
    done = run_cli("generate", str(model), "--prompt", "a\n\tb\r\n", "--max-tokens", "1")
    assert done.returncode == 0, done
    refused(run_cli("generate", str(model), "--prompt", "a\x1b[31m"), "prompt", "control characters")


def test_a_model_that_computes_no_numbers_is_told(tmp_path):
    """Weights that are finite each, and whose products are not."""
    shutil.copytree(GOLDEN / "dense/qwen2", tmp_path / "model")
    file = tmp_path / "model/model.safetensors"
    data = bytearray(file.read_bytes())
    n_header = int.from_bytes(data[:8], "little")
    begin, end = json.loads(data[8 : 8 + n_header])["model.norm.weight"]["data_offsets"]
    data[8 + n_header + begin : 8 + n_header + end] = b"\x7f\x7f" * ((end - begin) // 2)
    file.write_bytes(data)
    (tmp_path / "tokens.json").write_text("[1, 2, 3]")
    refused(run_cli("generate", str(tmp_path / "model"), "--tokens", str(tmp_path / "tokens.json")), "not finite")


@pytest.mark.parametrize("command", ["generate", "logits"])
def test_the_variant_of_kernels_is_a_flag_or_a_variable(command, tmp_path):
    (tmp_path / "tokens.json").write_text("[1, 2, 3]")
    ask = [command, str(GOLDEN / "dense/qwen2"), "--tokens", str(tmp_path / "tokens.json")]
    if command == "logits":
        ask += ["--out", str(tmp_path / "out.safetensors")]
    refused(run_cli(*ask, "--variant", "amx"), "variant", "'amx'", "ref")
    refused(run_cli(*ask, env={"SLUICE_VARIANT": "amx"}), "variant", "'amx'", "ref")
    assert run_cli(*ask, env={"SLUICE_VARIANT": "ref"}).returncode == 0
