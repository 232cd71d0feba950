"""Writes the goldens of dense models: random tiny checkpoints and their logits by Hugging Face transformers.

    python3 tests/golden/dense/make.py        (torch, transformers, safetensors, gguf; README.md has the versions)

For each model a folder in the official layout, or a GGUF file, and in golden.safetensors

    NAME.tokens   one sequence
    NAME.logits   of every position, all arithmetic float32
    NAME.rounded  the same with what enters a matrix, keys and values rounded to bf16: how far the rounding that sluice
                  documents moves logits
"""

import pathlib

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from transformers.models.llama import modeling_llama
from transformers.models.qwen2 import modeling_qwen2

HERE = pathlib.Path(__file__).parent
N_TOKENS = 150
LLAMA = dict(vocab_size=131, hidden_size=96, intermediate_size=64, num_hidden_layers=2, num_attention_heads=6,
             num_key_value_heads=3, head_dim=12, max_position_embeddings=512, rms_norm_eps=1e-5, rope_theta=100000.0,
             tie_word_embeddings=True, bos_token_id=1, eos_token_id=2)
QWEN2 = dict(vocab_size=203, hidden_size=80, intermediate_size=112, num_hidden_layers=2, num_attention_heads=5,
             num_key_value_heads=1, max_position_embeddings=512, rms_norm_eps=1e-6, rope_theta=1000000.0,
             tie_word_embeddings=False, bos_token_id=1, eos_token_id=2)


def fill(model, rng):
    """Weights under which layers neither vanish nor explode, and logits differ by a few units."""
    for name, parameter in model.named_parameters():
        shape = tuple(parameter.shape)
        if name.endswith("norm.weight"):
            value = 1 + 0.2 * rng.standard_normal(shape)
        elif name.endswith("bias"):
            value = 0.3 * rng.standard_normal(shape)
        elif "embed_tokens" in name:
            value = 0.5 * rng.standard_normal(shape)
        else:
            value = rng.standard_normal(shape) / np.sqrt(shape[1])
        parameter.data = torch.from_numpy(value.astype(np.float32))
    model.tie_weights()


def rounded(tensor):
    return tensor.to(torch.bfloat16).to(torch.float32)


def run(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].contiguous()


def run_rounded(model, tokens):
    hooks = []
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            hooks.append(module.register_forward_pre_hook(lambda _, args: (rounded(args[0]),)))
        if name.endswith("v_proj"):
            hooks.append(module.register_forward_hook(lambda _, args, out: rounded(out)))
    modules = (modeling_llama, modeling_qwen2)
    plain = modules[0].apply_rotary_pos_emb, modules[1].apply_rotary_pos_emb
    for module, rotate in zip(modules, plain):
        def rotate_and_round(q, k, *args, rotate=rotate, **kwargs):
            q, k = rotate(q, k, *args, **kwargs)
            return q, rounded(k)
        module.apply_rotary_pos_emb = rotate_and_round
    logits = run(model, tokens)
    for module, rotate in zip(modules, plain):
        module.apply_rotary_pos_emb = rotate
    for hook in hooks:
        hook.remove()
    return logits


def add(golden, name, model, rng):
    tokens = [int(t) for t in rng.integers(3, model.config.vocab_size, N_TOKENS)]
    golden[f"{name}.tokens"] = torch.tensor(tokens, dtype=torch.int32)
    golden[f"{name}.logits"] = run(model, tokens)
    golden[f"{name}.rounded"] = run_rounded(model, tokens)
    difference = golden[f"{name}.rounded"] - golden[f"{name}.logits"]
    print(name, "logits", float(golden[f"{name}.logits"].std()), "rounding", float(difference.square().mean().sqrt()))


def write_folder(name, model, dtype):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    tied = model.config.tie_word_embeddings
    tensors = {key: value.to(dtype).contiguous() for key, value in model.state_dict().items()
               if not (tied and key == "lm_head.weight")}
    save_file(tensors, folder / "model.safetensors")
    model.config.architectures = [type(model).__name__]
    (folder / "config.json").write_text(model.config.to_json_string())


def neighbours(rows, n_heads):
    """The order of rows of q and k in GGUF files of architecture llama."""
    return rows.reshape(n_heads, 2, rows.shape[0] // n_heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def halves(rows, n_heads):
    return rows.reshape(n_heads, rows.shape[0] // n_heads // 2, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def write_gguf(path, model):
    """The llama with matrices in several formats; the model gets the values that the file has."""
    c = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(c.num_hidden_layers)
    writer.add_context_length(c.max_position_embeddings)
    writer.add_embedding_length(c.hidden_size)
    writer.add_feed_forward_length(c.intermediate_size)
    writer.add_head_count(c.num_attention_heads)
    writer.add_head_count_kv(c.num_key_value_heads)
    writer.add_key_length(c.head_dim)
    writer.add_value_length(c.head_dim)
    writer.add_rope_dimension_count(c.head_dim)
    writer.add_rope_freq_base(100000.0)
    writer.add_layer_norm_rms_eps(c.rms_norm_eps)
    writer.add_vocab_size(c.vocab_size)
    writer.add_bos_token_id(c.bos_token_id)
    writer.add_eos_token_id(c.eos_token_id)
    kinds = {"attn_q": "Q4_1", "attn_k": "Q8_0", "attn_v": "Q5_0", "ffn_gate": "Q4_0", "ffn_up": "Q4_1",
             "ffn_down": "Q5_1", "attn_output": "F16", "token_embd": "Q8_0"}
    names = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
             "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
             "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
    for key, parameter in model.named_parameters():
        if key == "model.embed_tokens.weight":
            name = "token_embd"
        elif key == "model.norm.weight":
            name = "output_norm"
        else:
            _, _, layer, role = key.removesuffix(".weight").split(".", 3)
            name = f"blk.{layer}.{names[role]}"
        role = name.split(".")[-1]
        heads = {"attn_q": c.num_attention_heads, "attn_k": c.num_key_value_heads}.get(role)
        values = parameter.detach().numpy()
        if heads:
            values = neighbours(values, heads)
        kind = gguf.GGMLQuantizationType[kinds.get(role, "F32")]
        data = gguf.quants.quantize(values, kind)
        writer.add_tensor(f"{name}.weight", data, raw_dtype=kind)
        stored = gguf.quants.dequantize(data, kind)
        parameter.data = torch.from_numpy(np.ascontiguousarray(halves(stored, heads) if heads else stored))
    model.tie_weights()
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    rng = np.random.default_rng(7)
    golden = {}
    llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA, attn_implementation="eager")).eval()
    fill(llama, rng)
    write_folder("llama", llama, torch.float32)
    add(golden, "llama", llama, rng)
    write_gguf(HERE / "llama.gguf", llama)
    add(golden, "llama.gguf", llama, rng)
    qwen2 = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**QWEN2, attn_implementation="eager")).eval()
    fill(qwen2, rng)
    for parameter in qwen2.parameters():
        parameter.data = rounded(parameter.data)
    write_folder("qwen2", qwen2, torch.bfloat16)
    add(golden, "qwen2", qwen2, rng)
    save_file(golden, HERE / "golden.safetensors")


if __name__ == "__main__":
    main()
