#!/usr/bin/env python3
"""Writes halves.txt: conversions to and from the 16-bit floats.

    special FROM TO : in>out ...     ties, subnormals, overflow, infinities, NaNs, zeros of both signs
    random FROM TO : out ...         5,000 (f64: 1,000) inputs that pattern() below makes, in order
    back TO : words                  all 65,536 patterns as f32, listed as golden_format.py lists indices
"""
import os

import torch

from golden_format import listed, write

HERE = os.path.dirname(os.path.abspath(__file__))
MASK = 2**64 - 1
TYPES = {"f32": (torch.float32, torch.int32, 32, 23, 127), "f64": (torch.float64, torch.int64, 64, 52, 1023)}
HALVES = {"f16": torch.float16, "bf16": torch.bfloat16}


def mixed(i):
    """SplitMix64's i-th output from seed 0."""
    z = (i + 1) * 0x9E3779B97F4A7C15 & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def pattern(i, width, fraction, bias):
    """Any bits for even i; for odd i an exponent in f16's range and somewhat beyond."""
    word = mixed(i) >> (64 - width)
    if i % 2 == 1:
        exponent = bias - 28 + mixed(i + 2**32) % 48
        sign = word >> (width - 1) << (width - 1)
        word = sign | exponent << fraction | word & (2**fraction - 1)
    return word


def signed(word, width):
    return word - 2**width if word >> (width - 1) else word


def as_tensor(words, kind):
    dtype, whole, width, _, _ = TYPES[kind]
    return torch.tensor([signed(w, width) for w in words], dtype=whole).view(dtype)


def outputs(words, kind, half):
    converted = as_tensor(words, kind).to(HALVES[half]).view(torch.int16).tolist()
    words = [v & 0xFFFF for v in converted]
    if half == "bf16":  # torch writes ffff where it copies vectors and 7fc0 where it converts scalars.
        words = [0x7FC0 if w & 0x7FFF > 0x7F80 else w for w in words]
    return [f"{w:04x}" for w in words]


def specials(kind, half):
    """Neighbours of every f16 or bf16 boundary that rounding has to decide, as `kind` has them."""
    dtype, whole, width, _, _ = TYPES[kind]
    patterns = [0, 1, 2, 0x3FF, 0x400, 0x401, 0x7BFE, 0x7BFF, 0x3C00, 0x3C01, 0x7F, 0x80, 0x81, 0x3F80, 0x7F7F]
    exact = torch.tensor(patterns, dtype=torch.int16).view(HALVES[half]).to(dtype)
    values = [0.0, float("inf"), 65504.0, 65519.0, 65520.0, 65536.0, 3.3895e38, 3.4028e38, 2.0**-149, 2.0**-133,
              2.0**-134, 2.0**-24, 2.0**-25, 3 * 2.0**-25, 2.0**-14, 2.0**-126, 1.0 + 2.0**-11, 1.0 + 3 * 2.0**-11,
              1.0 + 2.0**-8, 1.0 + 3 * 2.0**-8]
    middle = (exact[:-1] + exact[1:]) / 2
    ties = torch.cat([exact, middle, torch.tensor(values, dtype=dtype)])
    up = torch.nextafter(ties, torch.tensor(float("inf"), dtype=dtype))
    down = torch.nextafter(ties, torch.tensor(-float("inf"), dtype=dtype))
    words = torch.cat([ties, up, down]).view(whole).tolist()
    words = [w % 2**width for w in words]
    top, fraction = (0x7F8, 20) if width == 32 else (0x7FF, 52)
    infinity = top << fraction
    words += [infinity | 1, infinity | 1 << (fraction - 1), infinity | 0x1234 << (fraction - 16)]
    words += [w ^ 1 << (width - 1) for w in words]
    return sorted(set(words))


def lines():
    for kind in TYPES:
        _, _, width, fraction, bias = TYPES[kind]
        for half in HALVES:
            words = specials(kind, half)
            pairs = zip(words, outputs(words, kind, half))
            yield f"special {kind} {half} : " + " ".join(f"{w:0{width // 4}x}>{o}" for w, o in pairs)
            words = [pattern(i, width, fraction, bias) for i in range(5000 if kind == "f32" else 1000)]
            yield f"random {kind} {half} : " + " ".join(outputs(words, kind, half))
    for half, dtype in HALVES.items():
        every = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(dtype).float()
        # The payload of a NaN is unspecified.
        bits = [w for w, nan in zip(every.view(torch.int32).tolist(), every.isnan().tolist()) if not nan]
        yield f"back {half} : {listed(bits)}"


if __name__ == "__main__":
    write(os.path.join(HERE, "halves.txt"), "make_halves.py", "conversion : words", list(lines()))
