#!/usr/bin/env python3
"""How far the numbers of a dense model are from those of its weights.

    python3 tools/dense_accuracy.py MODEL.gguf --sluice build/release/src/app/sluice [--llama-cpp] [--prompts N]

The oracle is the forward pass below, numpy in float32 over the dequantised weights. Prints, for `sluice logits` and, with
--llama-cpp, for the Python package llama-cpp-python: the mean divergence (Kullback-Leibler, oracle first) of the next token of each
prompt and of all its tokens, and the perplexity of one text beside the oracle's. Ends with 1 when sluice is above the limits.

Needs numpy, gguf, tokenizers (tools/accuracy-requirements.txt). Prompts are passages of tests/golden/text/english.txt, the text its beginning.
"""

import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = ROOT / "tests/golden/text/english.txt"
PERPLEXITY_TOKENS = 1024
MAX_DIVERGENCE = 1e-3
MAX_PERPLEXITY_CHANGE = 0.003
# Pre-tokenizers by tokenizer.ggml.pre.
BYTE_LEVEL = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
SMOLLM = tokenizers.pre_tokenizers.Sequence([tokenizers.pre_tokenizers.Digits(individual_digits=True), BYTE_LEVEL])


class File:
    """A GGUF file of architecture llama: its numbers and its weights in float32."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.values = {key: field.contents() for key, field in reader.fields.items()}
        if self["general.architecture"] != "llama":
            sys.exit(f"dense_accuracy: {path} is of architecture {self['general.architecture']}; only llama is known here")
        self.weights = {t.name: np.ascontiguousarray(gguf.quants.dequantize(t.data, t.tensor_type), dtype=np.float32)
                        for t in reader.tensors}

    def __getitem__(self, key):
        return self.values[key]

    def tokenizer(self):
        tokens = self["tokenizer.ggml.tokens"]
        merges = [tuple(merge.split(" ")) for merge in self["tokenizer.ggml.merges"]]
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
        tokenizer.pre_tokenizer = SMOLLM if self["tokenizer.ggml.pre"] == "smollm" else BYTE_LEVEL
        return tokenizer


class Oracle:
    def __init__(self, file):
        self.w = file.weights
        self.n_layers = file["llama.block_count"]
        self.n_heads = file["llama.attention.head_count"]
        self.n_kv = file["llama.attention.head_count_kv"]
        self.eps = np.float32(file["llama.attention.layer_norm_rms_epsilon"])
        self.head_dim = file["llama.embedding_length"] // self.n_heads
        exponents = np.arange(0, self.head_dim, 2, dtype=np.float64) / self.head_dim
        self.frequencies = file["llama.rope.freq_base"] ** -exponents

    def norm(self, x, name):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.eps) * self.w[name]

    def rotate(self, x, angles):
        """Neighbours turn: the rows of q and k of this architecture are stored so."""
        cos, sin = np.cos(angles)[:, None, :].astype(np.float32), np.sin(angles)[:, None, :].astype(np.float32)
        even, odd = x[..., 0::2], x[..., 1::2]
        return np.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(x.shape)

    def attend(self, u, layer, angles, mask):
        n = len(u)
        q = (u @ self.w[f"blk.{layer}.attn_q.weight"].T).reshape(n, self.n_heads, self.head_dim)
        k = (u @ self.w[f"blk.{layer}.attn_k.weight"].T).reshape(n, self.n_kv, self.head_dim)
        v = (u @ self.w[f"blk.{layer}.attn_v.weight"].T).reshape(n, self.n_kv, self.head_dim)
        group = self.n_heads // self.n_kv
        q, k = self.rotate(q, angles), np.repeat(self.rotate(k, angles), group, axis=1)
        scores = np.einsum("qhd,khd->hqk", q, k, optimize=True) / np.float32(np.sqrt(self.head_dim)) + mask
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        o = np.einsum("hqk,khd->qhd", p, np.repeat(v, group, axis=1), optimize=True)
        return o.reshape(n, -1) @ self.w[f"blk.{layer}.attn_output.weight"].T

    def logits(self, tokens):
        n = len(tokens)
        angles = np.arange(n)[:, None] * self.frequencies
        mask = np.triu(np.full((n, n), -np.inf, dtype=np.float32), 1)
        x = self.w["token_embd.weight"][tokens]
        for layer in range(self.n_layers):
            x = x + self.attend(self.norm(x, f"blk.{layer}.attn_norm.weight"), layer, angles, mask)
            u = self.norm(x, f"blk.{layer}.ffn_norm.weight")
            gate, up = u @ self.w[f"blk.{layer}.ffn_gate.weight"].T, u @ self.w[f"blk.{layer}.ffn_up.weight"].T
            x = x + (gate / (1 + np.exp(-gate)) * up) @ self.w[f"blk.{layer}.ffn_down.weight"].T
        head = self.w.get("output.weight", self.w["token_embd.weight"])
        return self.norm(x, "output_norm.weight") @ head.T


class Sluice:
    name = "sluice"

    def __init__(self, binary, model, folder):
        self.binary, self.model, self.folder = binary, model, pathlib.Path(folder)

    def logits(self, tokens):
        given, made = self.folder / "tokens.json", self.folder / "logits.safetensors"
        given.write_text(json.dumps(tokens))
        subprocess.run([self.binary, "logits", self.model, "--tokens", given, "--out", made], check=True,
                       stderr=subprocess.DEVNULL)
        data = made.read_bytes()
        n_header = struct.unpack("<Q", data[:8])[0]
        return np.frombuffer(data, dtype=np.float32, offset=8 + n_header).reshape(len(tokens), -1)


class LlamaCpp:
    name = "llama.cpp"

    def __init__(self, model):
        import llama_cpp

        self.llama = llama_cpp.Llama(model, n_ctx=PERPLEXITY_TOKENS, logits_all=True, verbose=False)

    def logits(self, tokens):
        self.llama.reset()
        self.llama.eval(tokens)
        return self.llama.scores[: len(tokens)].copy()


def log_probabilities(logits):
    logits = logits.astype(np.float64)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def divergences(wanted, got):
    """Of each row."""
    return (np.exp(wanted) * (wanted - got)).sum(axis=-1)


def perplexity(logprobs, tokens):
    return float(np.exp(-np.mean(logprobs[np.arange(len(tokens) - 1), tokens[1:]])))


def passages(tokens, n):
    """n prompts of 8 to 64 tokens, from all of the text, each another passage."""
    step = (len(tokens) - 64) // n
    return [tokens[i * step : i * step + 8 + i * 37 % 57] for i in range(n)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--sluice", required=True, help="the binary")
    parser.add_argument("--llama-cpp", action="store_true", help="measure the package llama-cpp-python, too")
    parser.add_argument("--prompts", type=int, default=200)
    options = parser.parse_args()

    file = File(options.model)
    tokenizer, oracle = file.tokenizer(), Oracle(file)
    tokens = tokenizer.encode(TEXT.read_text(encoding="utf-8")).ids
    prompts, text = passages(tokens, options.prompts), tokens[:PERPLEXITY_TOKENS]
    with tempfile.TemporaryDirectory() as folder:
        measured = [Sluice(options.sluice, options.model, folder)]
        measured += [LlamaCpp(options.model)] if options.llama_cpp else []
        last, every, most, agree = ({m.name: [] for m in measured} for _ in range(4))
        for prompt in prompts:
            wanted = log_probabilities(oracle.logits(prompt))
            for m in measured:
                got = log_probabilities(m.logits(prompt))
                divergence = divergences(wanted, got)
                last[m.name].append(divergence[-1])
                every[m.name].extend(divergence)
                most[m.name].append(divergence.max())
                agree[m.name].append(wanted[-1].argmax() == got[-1].argmax())
        wanted_perplexity = perplexity(log_probabilities(oracle.logits(text)), text)
        found = {m.name: perplexity(log_probabilities(m.logits(text)), text) for m in measured}

    print(f"{len(prompts)} prompts of {sum(map(len, prompts))} tokens; perplexity of {len(text)} tokens: oracle {wanted_perplexity:.4f}")
    print(f"{'':12}{'KL, next':>12}{'KL, all':>12}{'KL, most':>12}{'same first':>12}{'perplexity':>12}{'change':>12}")
    for name in last:
        change = found[name] / wanted_perplexity - 1
        print(f"{name:12}{np.mean(last[name]):12.3e}{np.mean(every[name]):12.3e}{np.max(most[name]):12.3e}"
              f"{np.mean(agree[name]):12.3f}{found[name]:12.4f}{change:12.2e}")
    good = np.mean(last["sluice"]) <= MAX_DIVERGENCE and abs(found["sluice"] / wanted_perplexity - 1) <= MAX_PERPLEXITY_CHANGE
    if options.llama_cpp:
        good = good and np.mean(last["sluice"]) <= np.mean(last["llama.cpp"])
    print("within the limits" if good else "NOT within the limits")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
