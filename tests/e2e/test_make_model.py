"""`sluice make-model`: what it writes, and what it refuses before it writes anything."""

import json
import subprocess

from harness.server import binary, run_cli


def refused(done, *words):
    assert done.returncode != 0 and done.stdout == "", done
    for word in words:
        assert word in done.stderr, done.stderr


def test_help_names_presets_and_where_the_tokenizer_is_found():
    done = run_cli("make-model", "--help")
    assert done.returncode == 0 and done.stderr == ""
    for word in ("tiny-a", "mini-b", "slice-c", "--seed", "--out", "--tokenizer", "deepseek-ai/"):
        assert word in done.stdout, word
    assert all(len(line) <= 100 for line in done.stdout.splitlines())


def test_equal_seeds_give_equal_folders(tmp_path):
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        done = run_cli("make-model", "tiny-a", "--seed", seed, "--out", str(tmp_path / name))
        assert done.returncode == 0, done
        assert "100 %" in done.stderr and "MB/s" in done.stderr, done.stderr
        assert "tensors" in done.stdout, done.stdout
    files = {p.name: p.read_bytes() for p in (tmp_path / "a").iterdir()}
    assert set(files) == {"config.json", "engram_token_map.json", "model.safetensors"}
    assert files == {p.name: p.read_bytes() for p in (tmp_path / "b").iterdir()}
    assert files["model.safetensors"] != (tmp_path / "c" / "model.safetensors").read_bytes()
    assert json.loads(files["config.json"])["text_config"]["vocab_size"] == 512
    done = run_cli("inspect", str(tmp_path / "a"))
    assert done.returncode == 0 and "7,716,822" in done.stdout, done


def test_wrong_usage_is_refused(tmp_path):
    out = str(tmp_path / "new")
    refused(run_cli("make-model"), "preset")
    refused(run_cli("make-model", "tiny-b", "--out", out), "tiny-b", "tiny-a, mini-b, slice-c")
    refused(run_cli("make-model", "tiny-a"), "--out")
    refused(run_cli("make-model", "tiny-a", "--out", out, "--sede", "1"), "--seed")
    refused(run_cli("make-model", "tiny-a", "--out", str(tmp_path / "no" / "such")), "folder")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").write_text("mine")
    refused(run_cli("make-model", "tiny-a", "--out", str(tmp_path / "full")), "not empty", "notes")
    assert not (tmp_path / "new").exists()


def test_a_preset_with_a_tokenizer_wants_the_released_one(tmp_path):
    out = str(tmp_path / "new")
    refused(run_cli("make-model", "mini-b", "--out", out), "deepseek-ai/DeepSeek-V4.1-Flash")
    other = tmp_path / "tokenizer.json"
    refused(run_cli("make-model", "mini-b", "--out", out, "--tokenizer", str(other)), "no such file")
    other.write_text("{}")
    refused(
        run_cli("make-model", "slice-c", "--out", out, "--tokenizer", str(other)), str(other), "SHA-256"
    )
    assert not (tmp_path / "new").exists()


def test_a_file_that_may_not_be_written_is_a_sentence(tmp_path):
    out = tmp_path / "new"
    command = f"trap '' XFSZ; ulimit -f 2000; exec {binary()} make-model tiny-a --out {out}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    refused(done, f"{out} is incomplete; remove it", "model.safetensors: larger than a file may be")
    assert list(out.iterdir()) == []
