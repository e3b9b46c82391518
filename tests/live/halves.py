"""Conversions between the float types: bits in, bits out, and what is read back."""

import live
import torch

WIDE = {"f32": (torch.float32, torch.int32, 32), "f64": (torch.float64, torch.int64, 64)}
HALF = {"f16": torch.float16, "bf16": torch.bfloat16}


def word(rng, width):
    """Any bits, bits around the 16-bit formats' range, or a value that ends in a tie."""
    bits = rng.randrange(2**width)
    if rng.random() < 0.3:
        return bits
    fraction, bias = (23, 127) if width == 32 else (52, 1023)
    exponent = rng.randrange(bias - 30, bias + 18) if rng.random() < 0.8 else rng.randrange(
        bias - 140 if width == 64 else 0, bias + 128)
    kept = rng.choice([fraction, 12, 11, 9, 8])
    bits = bits & (2**fraction - 1) & -(2 ** (fraction - kept))
    return rng.randrange(2) << (width - 1) | exponent << fraction | bits


def pairs(rng):
    while True:
        kind, half = rng.choice(list(WIDE)), rng.choice(list(HALF))
        dtype, whole, width = WIDE[kind]
        words = [word(rng, width) for _ in range(rng.randrange(1, 120))]
        signed = [w - 2**width if w >> (width - 1) else w for w in words]
        narrow = torch.tensor(signed, dtype=whole).view(dtype).to(HALF[half])
        text = " ".join(f"{w:0{width // 4}x}" for w in words)
        # The payload of a NaN is unspecified: read back as one NaN.
        back = torch.where(narrow.isnan(), torch.tensor(float("nan")), narrow.float())
        if half == "bf16":  # torch writes ffff where it copies vectors and 7fc0 where it converts scalars.
            narrow = torch.where(narrow.isnan(), torch.tensor(float("nan")).bfloat16(), narrow)
            narrow.view(torch.int16)[narrow.isnan()] = 0x7FC0
        yield f"{kind} {half} {text}", f"{live.bits(narrow)} | {live.bits(back)}"


live.run("halves", pairs)
