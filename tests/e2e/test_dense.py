"""Dense models on the command line: from a folder, from a GGUF file, from a folder with one."""

import json
import shutil
import struct

import pytest

from harness.server import REPOSITORY, run_cli

GOLDEN = REPOSITORY / "tests/golden/dense"
MODELS = ("llama", "llama.gguf", "qwen2")


def tensors_of(path):
    """name -> (dtype, values as bytes) of a safetensors file."""
    data = path.read_bytes()
    n_header = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + n_header])
    return {name: data[8 + n_header + entry["data_offsets"][0] : 8 + n_header + entry["data_offsets"][1]]
            for name, entry in header.items() if name != "__metadata__"}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_inspect_counts_what_the_files_hold(name):
    done = run_cli("inspect", str(GOLDEN / name), "--json", "--tensors", "--context", "128", "--batch", "3")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["error"] is None
    assert {part["part"] for part in found["parts"]} == {"embedding", "output head", "attention", "feed-forward", "norms"}
    assert sum(part["bytes"] for part in found["parts"]) == found["bytes"] == found["plan"]["weights_bytes"]
    assert sum(tensor["bytes"] for tensor in found["tensor_list"]) == found["bytes"]
    heads = next(part for part in found["parts"] if part["part"] == "output head")
    assert heads["tensors"] == (1 if name == "qwen2" else 0), "the others have the embedding for a head"
    width = 16 if name == "qwen2" else 3 * 12
    assert found["plan"]["kv_bytes"] == 3 * 128 * 2 * 2 * 2 * width, "layers, keys and values, bf16"
    assert found["plan"]["slots_bytes"] == 0
    text = run_cli("inspect", str(GOLDEN / name)).stdout
    assert "weights  " in text and "Engram" not in text and "slots" not in text


def test_a_folder_with_one_gguf_file_is_that_file(tmp_path):
    shutil.copy(GOLDEN / "llama.gguf", tmp_path / "a.gguf")
    assert run_cli("inspect", str(tmp_path)).returncode == 0
    shutil.copy(GOLDEN / "llama.gguf", tmp_path / "b.gguf")
    done = run_cli("inspect", str(tmp_path))
    assert done.returncode == 1 and "2 GGUF files" in done.stderr


@pytest.mark.parametrize("name", MODELS)
def test_logits_and_generate_run_on_it(name, tmp_path):
    golden = tensors_of(GOLDEN / "golden.safetensors")
    n_tokens = len(golden[f"{name}.tokens"]) // 4
    tokens = list(struct.unpack(f"<{n_tokens}i", golden[f"{name}.tokens"]))
    (tmp_path / "tokens.json").write_text(json.dumps(tokens))
    rows = []
    for threads in ("1", "2"):
        out = tmp_path / "out.safetensors"
        done = run_cli("logits", str(GOLDEN / name), "--tokens", str(tmp_path / "tokens.json"), "--out", str(out),
                       "--threads", threads)  # fmt: skip
        assert done.returncode == 0, done.stderr
        rows.append(tensors_of(out)["logits"])
    assert rows[0] == rows[1]
    got, want, rounded = (struct.unpack(f"<{len(rows[0]) // 4}f", data)
                          for data in (rows[0], golden[f"{name}.logits"], golden[f"{name}.rounded"]))  # fmt: skip
    noise = max(abs(a - b) for a, b in zip(rounded, want, strict=True))
    assert max(abs(a - b) for a, b in zip(got, want, strict=True)) <= 2 * noise
    n_vocab = len(want) // n_tokens
    done = run_cli("generate", str(GOLDEN / name), "--tokens", str(tmp_path / "tokens.json"), "--max-tokens", "1")
    assert json.loads(done.stdout) == [max(range(n_vocab), key=got[-n_vocab:].__getitem__)]


def test_what_is_no_known_model_is_refused_with_the_known_ones(tmp_path):
    shutil.copytree(GOLDEN / "llama", tmp_path / "model")
    config = json.loads((tmp_path / "model/config.json").read_text())
    (tmp_path / "model/config.json").write_text(json.dumps(config | {"model_type": "gemma"}))
    done = run_cli("inspect", str(tmp_path / "model"))
    assert done.returncode == 1 and 'model_type is "gemma"; known are deepseek_v41, deepseek_v41_text, llama, qwen2' in done.stderr
    (tmp_path / "model/config.json").write_text(json.dumps(config | {"mlp_bias": True}))
    done = run_cli("inspect", str(tmp_path / "model"))
    assert done.returncode == 1 and "mlp_bias is true; it must be false or null" in done.stderr
