#!/usr/bin/env python3
"""Writes ops16_torch2.txt: every differentiable operation in f16 and bf16, from the cases of the live test.

Needs PyTorch 2.15 on a machine with AVX2. The format is that of make_ops.py; tests/live/op16_cases.py says where
the words after " ~ " come from.
"""
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "live"))

import op16_cases  # noqa: E402  (chooses the instruction set: before anything imports PyTorch)
import op_cases  # noqa: E402
from golden_format import write  # noqa: E402

CASES = 3  # Of each type.
LONGEST = 2000


def lines():
    rng = random.Random(16)
    for name in op_cases.FAMILIES:
        missing = {dtype: CASES for dtype in op16_cases.DTYPES}
        while any(missing.values()):
            case, answer = op16_cases.case(name, rng)
            dtype = case.split()[1]
            line = f"{case} : {answer}"
            if len(line) <= LONGEST and missing[dtype] > 0:
                missing[dtype] -= 1
                yield line


if __name__ == "__main__":
    write(os.path.join(HERE, "ops16_torch2.txt"), "make_ops16.py", "case : answer", list(lines()))
