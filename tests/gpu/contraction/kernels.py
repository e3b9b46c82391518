#!/usr/bin/env python3
"""Looks for fused operations in the kernels of a library, and for arithmetic that is not IEEE's.

Usage: kernels.py only_where_it_is_written LIBRARY
       kernels.py all_of_those_are_seen LIBRARY

nvcc leaves its intermediate code in the library, as text. The first form fails when a kernel that
writes no fma contains one: the compiler has contracted a product and a sum. The second is its twin:
it fails when one of the kernels that do write fma is seen without, so that the search itself works.
"""
import re
import sys

# Functors that call fused() or the library's exp, log, tanh and erf.
WRITES_FMA = {
    "PlusScaled", "Exp", "Log", "Tanh", "TanhSlope", "Sigmoid", "GeluOf", "GeluSlope", "SoftmaxRow",
    "SoftmaxSlopeRow", "LayerNormElement", "LogProbsRow", "CrossEntropySlope", "ProductElement",
    "BlockedProductElement", "VectorProductElement",
    "NormLane", "Sgd", "Adam", "Adagrad", "Rmsprop",
}
NOT_IEEE = re.compile(r"\b(?:add|sub|mul|fma|div|sqrt)\.(?:\w+\.)*(?:ftz|approx|full)\b")
FEWEST_KERNELS = 120  # Fewer were not found, rather than not there.


def names_in(mangled):
    """The parts of a mangled name: 3Zip and 10PlusScaled of ...3ZipIfNS0_10PlusScaledIfEE..."""
    found = set()
    at = 0
    while match := re.compile(r"\d+").search(mangled, at):
        end = match.end() + int(match.group())
        found.add(mangled[match.end():end])
        at = end if end <= len(mangled) else match.end()
    return found


def kernels(path):
    with open(path, "rb") as library:
        text = library.read().decode("latin1")
    for match in re.finditer(r"\.entry (\w+)\(([^\0]*?)(?=\.entry |\0)", text):
        yield match.group(1), match.group(2)


def complaints(which, path):
    n_kernels = 0
    for name, code in kernels(path):
        n_kernels += 1
        writes = bool(names_in(name) & WRITES_FMA) and "NormLaneIfLb0" not in name \
            and "NormLaneIdLb0" not in name
        fused = "fma.rn" in code
        if which == "only_where_it_is_written":
            if fused and not writes:
                yield f"{name}: a fused operation that is not in the source"
            for other in NOT_IEEE.findall(code):
                yield f"{name}: {other}"
        elif writes and not fused:
            yield f"{name}: its fused operation was not found"
    if n_kernels < FEWEST_KERNELS:
        yield f"{n_kernels} kernels in {path}, there are more"


def main():
    which, path = sys.argv[1:]
    found = list(complaints(which, path))
    print("\n".join(found) or "all as written")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
