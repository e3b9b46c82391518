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
from golden_format import drawn, write  # noqa: E402

CASES = 3  # Of each type.
LONGEST = 2000


if __name__ == "__main__":
    rng = random.Random(16)
    LINES = drawn(op_cases.FAMILIES, op16_cases.DTYPES, lambda name: op16_cases.case(name, rng), CASES, LONGEST)
    write(os.path.join(HERE, "ops16_torch2.txt"), "make_ops16.py", "case : answer", list(LINES))
