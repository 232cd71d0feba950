"""Writes blocks.safetensors: random blocks of every block format, and of F16, with the values that
the Python package gguf gives them. python3 tests/golden/gguf/make.py (needs numpy and gguf)."""

import json
import pathlib
import struct

import gguf
import numpy as np

FORMATS = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")
# Where the f16 numbers of a block stand, in bytes.
F16_PLACES = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,),
              "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}
# Both zeros, both ends of the subnormal and of the normal range, one.
EXTREMES = (0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF)


def random_blocks(rng, name, n_blocks):
    _, n_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    blocks = rng.integers(0, 256, (n_blocks, n_bytes), dtype=np.uint8)
    blocks[0], blocks[1] = 0, 255  # all codes and factors at one end, at the other
    for place in F16_PLACES[name]:
        scales = rng.normal(0, 0.05, n_blocks).astype(np.float16).view(np.uint16)
        order = rng.permutation(len(EXTREMES))  # so that scale and min are not extreme in step
        for i, extreme in enumerate(order):
            scales[2 + i] = EXTREMES[extreme]
        blocks[:, place:place + 2] = scales.reshape(-1, 1).view(np.uint8)
    return blocks


def main():
    rng = np.random.default_rng(7)
    tensors = {"F16.bits": np.arange(0, 65536, 7, dtype=np.uint16)}
    tensors["F16.values"] = tensors["F16.bits"].view(np.float16).astype(np.float32)
    for name in FORMATS:
        n_values, _ = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
        blocks = random_blocks(rng, name, 14 + 512 // n_values)
        values = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name])
        assert np.isfinite(values).all()
        tensors[f"{name}.blocks"] = blocks
        tensors[f"{name}.values"] = values.astype(np.float32)
    dtypes = {"uint8": "U8", "uint16": "U16", "float32": "F32"}
    header, data = {}, b""
    for name, array in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": dtypes[array.dtype.name], "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path = pathlib.Path(__file__).parent / "blocks.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    print(path.name, path.stat().st_size, "bytes")


main()
