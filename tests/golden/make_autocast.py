#!/usr/bin/env python3
"""Writes autocast_torch2.txt: every differentiable operation under autocast, from the cases of the live test.

Needs PyTorch 2.15 on a machine with AVX2. The format is that of make_ops.py; tests/live/autocast_cases.py says where
the words after " ~ " come from.
"""
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "live"))

import autocast_cases  # noqa: E402  (chooses the instruction set: before anything imports PyTorch)
from golden_format import drawn, write  # noqa: E402

CASES = 4  # Of each type.
LONGEST = 1600


if __name__ == "__main__":
    rng = random.Random(16)
    LINES = drawn(autocast_cases.FAMILIES, ("autocast:f16", "autocast:bf16"), lambda name: autocast_cases.case(name, rng), CASES, LONGEST)
    write(os.path.join(HERE, "autocast_torch2.txt"), "make_autocast.py", "case : answer", list(LINES))
