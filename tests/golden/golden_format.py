"""What golden scripts share: the header lines, the digest of long index lists, and drawn cases."""

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


def drawn(families, dtypes, draw, n, longest):
    """Lines "case : answer" of random cases: `n` of each of these dtypes in each family, none longer than `longest`.

    `draw(family)` returns a random case, whose second word is its dtype, and its answer.
    """
    for name in families:
        missing = {dtype: n for dtype in dtypes}
        while any(missing.values()):
            case, answer = draw(name)
            dtype = case.split()[1]
            line = f"{case} : {answer}"
            if len(line) <= longest and missing[dtype] > 0:
                missing[dtype] -= 1
                yield line
