#!/usr/bin/env python3
"""Draws a permutation of 100,000,000 numbers with Lockstep and with torch.randperm, alternating on
this machine, compares them element for element and prints the ratio of the best times.

Usage: bench/randperm.py build-optimised/bin/randperm_bench [--count N] [--runs 3]
Exits with 1 if the permutations differ, with 3 without torch.
"""
import argparse
import array
import subprocess
import sys
import time

try:
    import torch
except ImportError:
    print(f"{sys.executable} has no torch: nothing to compare with", file=sys.stderr)
    sys.exit(3)


def digest(order):
    """FNV-1a over whole elements, a block at a time: the whole as Python numbers would not fit."""
    state = 0xCBF29CE484222325
    for block in order.split(1_000_000):
        for index in array.array("q", block.numpy().tobytes()):
            state = ((state ^ index) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{state:016x}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bench", help="the program randperm_bench")
    parser.add_argument("--count", type=int, default=100_000_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    ours, theirs = [], []
    for _ in range(args.runs):
        answer = subprocess.run([args.bench, str(args.count), str(args.seed), "1"],
                                capture_output=True, text=True, check=True).stdout.split()
        ours.append(float(answer[0]))
        generator = torch.Generator().manual_seed(args.seed)
        begin = time.perf_counter()
        order = torch.randperm(args.count, generator=generator)
        theirs.append(time.perf_counter() - begin)
    equal = digest(order) == answer[1]
    ratio = min(theirs) / min(ours)
    print(f"permutation of {args.count} numbers, best of {args.runs} alternating runs")
    print(f"  Lockstep                {min(ours):9.3f} s")
    print(f"  PyTorch {torch.__version__:15} {min(theirs):9.3f} s")
    print(f"  ratio                   {ratio:9.1f} x")
    print(f"  equal                   {'every element' if equal else 'NO'}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
