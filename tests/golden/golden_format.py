"""What every golden script shares: the header lines and the digest of long index lists."""

import sys

import torch


def write(path, script, columns, lines):
    """Writes `lines` below a header that names the maker, its torch version and the columns."""
    with open(path, "w", encoding="ascii") as out:
        out.write(f"# made by tests/golden/{script} with torch {torch.__version__}\n")
        out.write(f"# {columns}\n")
        for line in lines:
            out.write(line + "\n")
    print(f"{path}: {len(lines)} lines", file=sys.stderr)


def digest(indices):
    """FNV-1a over whole indices instead of bytes, 16 hex digits."""
    state = 0xCBF29CE484222325
    for index in indices:
        state = ((state ^ index) * 0x100000001B3) % 2**64
    return f"{state:016x}"


def listed(indices, longest=40):
    """The indices themselves, or for more than `longest`: '#', count, digest, first 3, last 3."""
    if len(indices) <= longest:
        return " ".join(str(i) for i in indices)
    ends = " ".join(str(i) for i in indices[:3] + indices[-3:])
    return f"# {len(indices)} {digest(indices)} {ends}"
