#!/usr/bin/env python3
"""Writes ops.txt: every differentiable operation forward and backward, from the cases of the live test.

Needs PyTorch 1.13 on a machine with AVX2. A line is the case in the format of op_answers.h, " : ", and the
answer: tensors as hex words, with " | " between them. Words after " ~ " say, in f64, how far an element may
be off (tests/live/op_bounds.py derives it); tensors without them must be equal bit for bit.
"""
import os
import random
import sys

from golden_format import write

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "live"))

import op_cases  # noqa: E402  (found through the line above)

CASES = 4
LONGEST = 2500


def lines():
    rng = random.Random(20)
    for name in [*op_cases.FAMILIES, *op_cases.FULL_WIDTH]:
        n_drawn = 0
        while n_drawn < CASES:
            case, answer = op_cases.case(name, rng)
            line = f"{case} : {answer}"
            if len(line) <= LONGEST:
                n_drawn += 1
                yield line


if __name__ == "__main__":
    write(os.path.join(HERE, "ops.txt"), "make_ops.py", "case : answer", list(lines()))
