#!/usr/bin/env python3
"""Writes foreign_sums.txt beside it: all-reduces by libraries that are not ours, by each algorithm they offer.

Needs g++, numpy, libgloo-dev and openmpi-bin; MPICH and the headers of both are downloaded (tests/foreign_sums/libraries.py).

    group TYPE RANKS          what follows belongs to it
    contribution WORDS        of each rank, in order: bits of the elements, hexadecimal
    result LIBRARY ALGORITHM WORDS
"""
from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "foreign_sums"))

import numpy as np  # noqa: E402
from libraries import GLOO, MPICH, OPEN_MPI, Algorithm, Libraries, all_libraries  # noqa: E402
from number_types import TYPES  # noqa: E402

ELEMENTS = 40
RANKS = (2, 3, 4, 5, 8)
KINDS = {"float": TYPES["f32"], "double": TYPES["f64"]}
ALGORITHMS = [Algorithm(library, name) for library, names in (("openmpi", OPEN_MPI), ("mpich", MPICH), ("gloo", GLOO)) for name in names]
MASK = 2**64 - 1


def mixed(x: int) -> int:
    """splitmix64."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


def drawn(rank: int, element: int) -> float:
    """Both signs, magnitudes over 24 binary orders: sums round, and orders differ."""
    word = mixed((mixed(rank) + element) & MASK)
    mantissa = (word >> 11) / 2.0**53 + 0.5
    return float(np.ldexp(mantissa if word & 1 else -mantissa, (word >> 1) % 24 - 12))


def words(data: bytes, size: int) -> str:
    return " ".join(data[i:i + size][::-1].hex() for i in range(0, len(data), size))


def version(package: str) -> str:
    command = ["apt-cache", "show", "--no-all-versions", package]
    text = subprocess.run(command, text=True, capture_output=True, check=True).stdout
    return next(line.split(": ")[1] for line in text.splitlines() if line.startswith("Version"))


def group(libraries: Libraries, folder: Path, name: str, ranks: int) -> list[str]:
    kind = KINDS[name]
    (folder / "cases.txt").write_text(f"sum {kind.name} {ELEMENTS}\n")
    parts = [kind.encode(np.array([drawn(rank, i) for i in range(ELEMENTS)])) for rank in range(ranks)]
    (folder / "sum.in").write_bytes(b"".join(parts))
    lines = [f"group {name} {ranks}"] + [f"contribution {words(part, kind.size)}" for part in parts]
    for algorithm in ALGORITHMS:
        libraries.reduce(folder, ranks, algorithm)
        result = words((folder / f"sum.{algorithm.label}").read_bytes(), kind.size)
        lines.append(f"result {algorithm.library} {algorithm.name} {result}")
    return lines


def main() -> None:
    lines = [f"# {name} {version(name)}" for name in ("libopenmpi-dev", "libmpich-dev", "libgloo-dev")]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        libraries = all_libraries(folder / "libraries") if len(sys.argv) < 2 else all_libraries(Path(sys.argv[1]))
        for kind in KINDS:
            for ranks in RANKS:
                lines += group(libraries, folder, kind, ranks)
    (HERE / "foreign_sums.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
