"""`sluice inspect`: what a model folder holds, against an independent count of the released model."""

import json
import os
import shutil

import pytest

from harness.server import REPOSITORY, run_cli

WIDTH = {"F32": 4, "BF16": 2, "F8_E4M3": 1, "F8_E8M0": 1, "I8": 1}

TEXT = {
    "model_type": "deepseek_v41_text", "vocab_size": 129280, "num_hidden_layers": 40, "hidden_size": 5120,
    "num_attention_heads": 64, "moe_intermediate_size": 2304, "num_key_value_heads": 1, "head_dim": 512,
    "qk_rope_head_dim": 64, "q_lora_rank": 1280, "o_lora_rank": 1024, "o_groups": 8, "hidden_act": "silu",
    "swiglu_limit": 10.0, "rms_norm_eps": 1e-20, "tie_word_embeddings": False, "max_position_embeddings": 1048576,
    "rope_theta": 10000, "compress_rope_theta": 160000,
    "rope_scaling": {"rope_type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1,
                     "original_max_position_embeddings": 65536},
    "sliding_window": 128, "n_routed_experts": 384, "n_shared_experts": 1, "num_experts_per_tok": 6,
    "scoring_func": "sqrtsoftplus", "topk_method": "noaux_tc", "norm_topk_prob": True, "routed_scaling_factor": 1.5,
    "compress_ratios": [0, 0] + [2] * 18 + [1] * 20 + [0] * 3, "kv_source_layer_ids": [2, 8, 14, 20],
    "index_source_layer_ids": [2, 8, 14, 20, 24, 28, 32, 36], "index_n_heads": 32, "index_head_dim": 128,
    "index_topk": 512, "candidate_source_layer_id": 20, "candidate_topk_blocks": 2048, "candidate_block_size": 8,
    "hc_mult": 4, "hc_sinkhorn_iters": 20, "hc_eps": 1e-6, "engram_layer_ids": [1, 14],
    "engram_num_embeddings": [384006168, 384016682], "engram_max_ngram_size": 4, "engram_vocab_size": 16000000,
    "engram_n_heads": 8, "engram_head_dim": 256, "engram_pad_token_id": 2, "engram_compressed_vocab_size": 99092,
    "num_nextn_predict_layers": 3, "dspark_block_size": 5, "dspark_noise_token_id": 128799,
    "dspark_target_layer_ids": [37, 38, 39], "dspark_markov_rank": 256, "dspark_n_routed_experts": 128,
    "dspark_num_experts_per_tok": 3,
}  # fmt: skip

CONFIG = {
    "architectures": ["DeepseekV41ForCausalLM"], "model_type": "deepseek_v41", "dtype": "bfloat16",
    "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2, "image_token_id": 129264, "text_config": TEXT,
    "vision_config": {"model_type": "deepseek_v41_vision", "num_hidden_layers": 32, "hidden_size": 1024,
                      "num_attention_heads": 16, "intermediate_size": 2816, "patch_size": 14, "rope_theta": 10000,
                      "downsample_ratio": 3, "max_image_tokens": 1024, "min_pixels": 295936, "max_wh_ratio": None},
    "quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [32, 32],
                            "scale_fmt": "ue8m0", "expert_dtype": "fp4"},
}  # fmt: skip


def layer(prefix, n_experts):
    """(name, dtype, shape) of what every layer and draft stage has: spec model.md 2.3, with its literal numbers."""

    def fp8(name, n_out, n_in):
        yield f"{prefix}.{name}.weight", "F8_E4M3", [n_out, n_in]
        yield f"{prefix}.{name}.scale", "F8_E8M0", [n_out // 32, n_in // 32]

    def fp4(name, n_out, n_in):
        yield f"{prefix}.{name}.weight", "I8", [n_out, n_in // 2]
        yield f"{prefix}.{name}.scale", "F8_E8M0", [n_out, n_in // 32]

    yield f"{prefix}.attn.attn_sink", "F32", [64]
    yield f"{prefix}.attn.q_norm.weight", "BF16", [1280]
    yield f"{prefix}.attn.kv_norm.weight", "BF16", [512]
    shapes = {"wq_a": (1280, 5120), "wq_b": (32768, 1280), "wkv": (512, 5120), "wo_a": (8192, 4096), "wo_b": (5120, 8192)}
    for name, shape in shapes.items():
        yield from fp8(f"attn.{name}", *shape)
    for norm in ("attn_norm", "ffn_norm"):
        yield f"{prefix}.{norm}.weight", "BF16", [5120]
    yield f"{prefix}.ffn.gate.weight", "BF16", [n_experts, 5120]
    for bias in ("bias", "bias_vl"):
        yield f"{prefix}.ffn.gate.{bias}", "F32", [n_experts]
    for expert in range(n_experts):
        yield from fp4(f"ffn.experts.{expert}.w1", 2304, 5120)
        yield from fp4(f"ffn.experts.{expert}.w2", 5120, 2304)
        yield from fp4(f"ffn.experts.{expert}.w3", 2304, 5120)
    for name, shape in {"w1": (2304, 5120), "w2": (5120, 2304), "w3": (2304, 5120)}.items():
        yield from fp8(f"ffn.shared_experts.{name}", *shape)
    for site in ("attn", "ffn"):
        yield f"{prefix}.hc_{site}_fn", "F32", [24, 20480]
        yield f"{prefix}.hc_{site}_base", "F32", [24]
        yield f"{prefix}.hc_{site}_scale", "F32", [3]


def sources():
    """What only some layers have."""
    for at in (2, 8, 14, 20):
        yield f"layers.{at}.attn.compressor.norm.weight", "BF16", [512]
        yield f"layers.{at}.attn.compressor.wkv.weight", "BF16", [512, 5120]
        if at != 20:
            yield f"layers.{at}.attn.compressor.wgate.weight", "BF16", [512, 5120]
        yield f"layers.{at}.attn.indexer.wk.weight", "BF16", [128, 512]
        yield f"layers.{at}.attn.indexer.k_norm.weight", "BF16", [128]
    for at in (2, 8, 14, 20, 24, 28, 32, 36):
        yield f"layers.{at}.attn.indexer.weights_proj.weight", "BF16", [32, 5120]
        yield f"layers.{at}.attn.indexer.wq_b.weight", "F8_E4M3", [4096, 1280]
        yield f"layers.{at}.attn.indexer.wq_b.scale", "F8_E8M0", [128, 40]
    for at, rows in ((1, 384006168), (14, 384016682)):
        yield f"layers.{at}.engram.embed.weight", "F8_E4M3", [rows, 256]
        yield f"layers.{at}.engram.embed.scale", "F8_E8M0", [rows, 8]
        yield f"layers.{at}.engram.q_weight", "BF16", [4, 5120]
        yield f"layers.{at}.engram.k_weight", "BF16", [4, 5120]
        yield f"layers.{at}.engram.wkv.weight", "F8_E4M3", [25600, 6144]
        yield f"layers.{at}.engram.wkv.scale", "F8_E8M0", [800, 192]


def vision():
    yield "vision.patch_embed.proj.weight", "BF16", [1024, 588]
    yield "vision.patch_embed.proj.bias", "BF16", [1024]
    for block in range(32):
        at = f"vision.blocks.{block}"
        for norm in ("norm1", "norm2"):
            yield f"{at}.{norm}.weight", "BF16", [1024]
        yield f"{at}.attn.wqkv.weight", "BF16", [3072, 1024]
        yield f"{at}.attn.wqkv.bias", "BF16", [3072]
        yield f"{at}.attn.wo.weight", "BF16", [1024, 1024]
        yield f"{at}.attn.wo.bias", "BF16", [1024]
        yield f"{at}.mlp.w1.weight", "BF16", [5632, 1024]
        yield f"{at}.mlp.w2.weight", "BF16", [1024, 2816]
    yield "vision.norm.weight", "BF16", [1024]
    for name, n_in in (("w1", 9216), ("w2", 5120)):
        yield f"aligner.{name}.weight", "BF16", [5120, n_in]
        yield f"aligner.{name}.bias", "BF16", [5120]


def released():
    yield "embed.weight", "BF16", [129280, 5120]
    yield "head.weight", "BF16", [129280, 5120]
    yield "norm.weight", "BF16", [5120]
    for name in ("image_start", "image_end", "image_newline"):
        yield name, "BF16", [5120]
    for at in range(40):
        yield from layer(f"layers.{at}", 384)
    yield from sources()
    for stage in range(3):
        yield from layer(f"mtp.{stage}", 128)
    yield "mtp.0.main_proj.weight", "F8_E4M3", [5120, 15360]
    yield "mtp.0.main_proj.scale", "F8_E8M0", [160, 480]
    yield "mtp.0.main_norm.weight", "BF16", [5120]
    yield "mtp.2.norm.weight", "BF16", [5120]
    yield "mtp.2.markov_head.embed.weight", "BF16", [129280, 256]
    yield "mtp.2.markov_head.head.weight", "BF16", [129280, 256]
    yield "mtp.2.confidence_head.proj.weight", "BF16", [1, 5376]
    yield from vision()


def write_sparse(path, tensors):
    """A safetensors file that reads as zeros behind its header; returns the bytes of its tensors."""
    header, end = {}, 0
    for name, dtype, shape in sorted(tensors, key=lambda t: -WIDTH[t[1]]):
        size = WIDTH[dtype]
        for n in shape:
            size *= n
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
    os.truncate(path, 8 + len(text) + end)
    return end


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The whole released model without weights: 96,085 tensors, 510 GB of nothing in 48 files."""
    folder = tmp_path_factory.mktemp("released")
    shards = [[] for _ in range(48)]
    for i, tensor in enumerate(released()):
        shards[i % 46 if ".engram.embed." not in tensor[0] else 46 + ("layers.14." in tensor[0])].append(tensor)
    weight_map, total = {}, 0
    for i, shard in enumerate(shards):
        name = f"model-{i + 1:05}-of-00048.safetensors"
        total += write_sparse(folder / name, shard)
        weight_map |= {tensor[0]: name for tensor in shard}
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


def test_released_model_has_its_known_totals(model):
    done = run_cli("inspect", str(model))
    assert done.returncode == 0, done.stderr
    total = next(line for line in done.stdout.splitlines() if line.startswith("total"))
    assert total.split()[1:] == ["763,205,315,794", "510,286,023,000", "96,085"]
    assert "no, it does not fit" in done.stdout


def test_parts_and_plan_are_those_of_the_specification(model):
    done = run_cli("inspect", str(model), "--json", "--context", "131072", "--batch", "2")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    parts = {p["part"]: (p["parameters"], p["bytes"], p["tensors"]) for p in found["parts"]}
    assert parts == {
        "embedding, head, final norm": (1323832320, 2647664640, 3),
        "attention": (5064696320, 5069721600, 520),
        "routed experts": (543581798400, 288777830400, 92160),
        "shared experts": (1415577600, 1416960000, 240),
        "routers": (78673920, 157409280, 120),
        "hyper-connections": (39323760, 157295040, 240),
        "compressors and indexers": (61868544, 81835008, 43),
        "layer norms": (409600, 819200, 80),
        "Engram tables": (196613849600, 202758032400, 4),
        "Engram projections": (314654720, 315043840, 8),
        "draft": (14225362530, 7932874632, 2401),
        "image encoder and delimiters": (485268480, 970536960, 266),
    }
    plan = found["plan"]
    assert plan["kv_bytes_per_1000_tokens"] == 890_000
    assert plan["kv_bytes"] == 2 * 131072 * 890
    assert plan["engram_table_bytes"] == 202758032400
    assert plan["weights_bytes"] + plan["engram_table_bytes"] + plan["unused_bytes"] == 510286023000
    needed = ("weights_bytes", "kv_bytes", "slots_bytes", "workspace_bytes")
    assert plan["needed_bytes"] == sum(plan[key] for key in needed)
    assert plan["fits"] is False


def test_tensors_are_listed(model):
    done = run_cli("inspect", str(model), "--tensors", "--json")
    tensors = json.loads(done.stdout)["tensor_list"]
    assert {(t["name"], t["dtype"], *t["shape"]) for t in tensors} == {(n, d, *s) for n, d, s in released()}


def test_wrong_folders_and_flags_are_refused(tmp_path):
    done = run_cli("inspect")
    assert done.returncode == 2 and "name the MODEL folder" in done.stderr
    done = run_cli("inspect", "")
    assert done.returncode == 2 and "name the MODEL folder" in done.stderr
    done = run_cli("inspect", str(tmp_path), "--contxt", "7")
    assert done.returncode == 2 and "context" in done.stderr
    done = run_cli("inspect", str(tmp_path))
    assert done.returncode == 1 and "config.json: no such file" in done.stderr
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"model_type": "mixtral"}))
    write_sparse(tmp_path / "model.safetensors", [("norm.weight", "BF16", [5120])])
    done = run_cli("inspect", str(tmp_path))
    assert done.returncode == 1 and 'model_type is "mixtral"' in done.stderr


def test_a_folder_that_lacks_tensors_is_shown_and_fails(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    write_sparse(tmp_path / "model.safetensors", [("norm.weight", "BF16", [5120]), ("x", "I8", [7])])
    done = run_cli("inspect", str(tmp_path))
    assert done.returncode == 1
    assert "not of this model" in done.stdout
    assert "are missing, the first is embed.weight" in done.stderr


def test_what_could_not_be_loaded_does_not_fit(tmp_path):
    """Symptom: inspect said "yes, it fits" of tables that generate and serve refused."""
    folder = tmp_path / "model"
    shutil.copytree(REPOSITORY / "tests/golden/tiny-a", folder)
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["engram_vocab_size"] = 600
    (folder / "config.json").write_text(json.dumps(config))
    done = run_cli("inspect", str(folder))
    assert done.returncode == 1
    assert "engram_num_embeddings[0] is 3252; engram_vocab_size 600" in done.stderr


def test_a_pipe_in_the_folder_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "config.json")
    done = run_cli("inspect", str(tmp_path))
    assert done.returncode == 1 and "config.json: is not a regular file" in done.stderr
