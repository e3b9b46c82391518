"""Writes random.txt: raw draws, states, permutations and uniform draws of torch's CPU generator.

Run it once more with ATEN_CPU_CAPABILITY=default: that run writes random_default.txt, the uniform
draws rounded twice, which only such a process makes.
"""

import os
import struct

import torch

from golden_format import listed, write

HERE = os.path.dirname(os.path.abspath(__file__))
SEEDS = [0, 1, 5489, 42, 2**32 + 42, 2**32 - 1, 2**63 + 5, -1, -(2**63), 67280421310721]
RANGES = [(0.0, 1.0), (-0.1, 0.1), (-0.17677669529663687, 0.17677669529663687), (2.0, 5.5),
          (-1e30, 1e30), (3.0, 3.0)]


def generator(seed):
    return torch.Generator().manual_seed(seed)


def raw_words(seed, skip, count):
    """The 32-bit outputs after `skip` of them, read through int64 draws below 2^32 - 1."""
    state = generator(seed)
    torch.empty(skip, dtype=torch.float32).uniform_(generator=state)
    words = []
    for _ in range(count):
        # One output modulo 2^32 - 1: itself, but for the one value 2^32 - 1 that no case contains.
        words.append(int(torch.empty(1, dtype=torch.int64).random_(0, 2**32 - 1, generator=state)))
    return words


def state_line(name, state):
    """Seed, left, seeded, next, the 624 words mixed into one, and the cached normal's bits."""
    blob = bytes(state.get_state().tolist())
    seed, left, seeded, position = struct.unpack_from("<QiiQ", blob, 0)
    words = struct.unpack_from("<624Q", blob, 24)
    normal, = struct.unpack_from("<Q", blob, 5024)
    valid, = struct.unpack_from("<i", blob, 5040)
    mixed = 0
    for word in words:
        mixed = (mixed * 31 + word) % 2**64
    return (f"state {name} : {seed:016x} {left} {seeded} {position} {mixed:016x} {normal:016x}"
            f" {valid}")


def uniform_line(kind, seed, count, low, high):
    dtype = torch.float32 if kind == "float" else torch.float64
    values = torch.empty(count, dtype=dtype).uniform_(low, high, generator=generator(seed))
    if kind == "float":
        words = [f"{w & 0xffffffff:08x}" for w in values.view(torch.int32).tolist()]
    else:
        words = [f"{w & 0xffffffffffffffff:016x}" for w in values.view(torch.int64).tolist()]
    return f"{kind} {seed} {low.hex()} {high.hex()} : {' '.join(words)}"


def normal_lines():
    """Several fills from one generator per line: short ones leave half a pair over."""
    lines = []
    for kind, dtype in (("normal_float", torch.float32), ("normal_double", torch.float64)):
        for seed, mean, std in ((3, 0.0, 1.0), (9, 0.5, 2.0), (11, -3.0, 0.02)):
            for counts in ((16,), (17,), (5,), (15, 1, 7, 4), (3, 40, 2), (640, 7), (1000,)):
                state = generator(seed)
                parts = [torch.empty(n, dtype=dtype).normal_(mean, std, generator=state)
                         for n in counts]
                values = torch.cat(parts)
                wide = dtype == torch.float64
                words = values.view(torch.int64 if wide else torch.int32).tolist()
                digits, mask = (16, 2**64 - 1) if wide else (8, 2**32 - 1)
                if len(words) > 64:
                    words = words[:32] + words[-32:]
                lines.append(f"{kind} {seed} {float(mean).hex()} {float(std).hex()}"
                             f" {' '.join(str(n) for n in counts)} : "
                             + " ".join(f"{w & mask:0{digits}x}" for w in words))
    return lines


def uniform_lines():
    lines = []
    for at, (low, high) in enumerate(RANGES):
        for count in (1, 7, 33, 200, 700):
            lines.append(uniform_line("float", 7 + at, count, low, high))
            lines.append(uniform_line("double", 70 + at, count // 2 + 1, low, high))
    return lines


def main():
    columns = "raw seed skip | state | randperm seed n | float, double seed from to : values"
    columns += " | normal_ seed mean std sizes : values, of more than 64 the first and last 32"
    if os.environ.get("ATEN_CPU_CAPABILITY") == "default":
        write(os.path.join(HERE, "random_default.txt"), "make_random.py (default capability)",
              columns, uniform_lines())
        return
    lines = []
    for seed in SEEDS:
        for skip in (0, 619, 1300):
            words = " ".join(f"{w:08x}" for w in raw_words(seed, skip, 10))
            lines.append(f"raw {seed} {skip} : {words}")
    state = generator(-5)
    lines.append(state_line("fresh", state))
    torch.empty(3, dtype=torch.float64).normal_(generator=state)
    lines.append(state_line("after_3_normals", state))
    torch.empty(616).uniform_(generator=state)
    lines.append(state_line("block_exhausted", state))
    torch.empty(1).uniform_(generator=state)
    lines.append(state_line("next_block", state))
    for seed in (0, 1, 42, 12345, -3, 2**40 + 1):
        for n in (0, 1, 2, 3, 10, 16, 20, 40, 128, 129, 130, 257, 385, 1000, 65537, 1000000):
            lines.append(f"randperm {seed} {n} : "
                         f"{listed(torch.randperm(n, generator=generator(seed)).tolist())}")
    write(os.path.join(HERE, "random.txt"), "make_random.py", columns,
          lines + normal_lines() + uniform_lines())


if __name__ == "__main__":
    main()
