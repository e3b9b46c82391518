#!/usr/bin/env python3
"""Writes digests.txt and sketches.txt with plain Python integers and floats, from the definitions in
src/tensor/digest.h and src/tensor/sketch.h alone.
    digests.txt    sm64 element_bytes base digest : hex words
    sketches.txt   values|sketch : bits of doubles (sketch: l1, then the four sums)
"""
import pathlib
import random
import struct

HERE = pathlib.Path(__file__).parent
MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def sm64(words, base):
    return sum(mix((u + (base + i + 1) * GOLDEN) & MASK) for i, u in enumerate(words)) & MASK


def sketch(values):
    lanes = [[0.0] * 8 for _ in range(5)]
    for i, x in enumerate(values):
        signs = mix(((i + 1) * GOLDEN) & MASK)
        lanes[0][i % 8] += abs(x)
        for j in range(4):
            lanes[j + 1][i % 8] += -x if (signs >> j) & 1 else x
    totals = []
    for row in lanes:
        total = 0.0
        for lane in row:
            total += lane
        totals.append(total)
    return totals


def bits64(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def hexes(words):
    return " ".join(f"{word:x}" for word in words)


def write(name, lines):
    header = "# made by tests/golden/make_digests.py"
    (HERE / name).write_text("\n".join([header] + lines) + "\n")


def write_digests(rng):
    lines = []
    for size, n, base in [(1, 9, 0), (2, 17, 3), (4, 21, 1 << 40), (8, 11, 5), (8, 0, 2)]:
        words = [rng.getrandbits(8 * size) for _ in range(n)]
        lines.append(f"sm64 {size} {base} {sm64(words, base):x} : " + hexes(words))
    write("digests.txt", lines)


def write_sketches(rng):
    lines = []
    for n in [0, 1, 4, 7, 8, 9, 13, 40]:
        values = [rng.uniform(-2.0, 2.0) for _ in range(n)]
        lines.append("values : " + hexes(map(bits64, values)))
        lines.append("sketch : " + hexes(map(bits64, sketch(values))))
    write("sketches.txt", lines)


if __name__ == "__main__":
    random_numbers = random.Random(3)
    write_digests(random_numbers)
    write_sketches(random_numbers)
