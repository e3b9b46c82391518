"""Writes sparse.txt: programs over sparse gradients and what PyTorch answers; see sparse_reference.py."""

import os
import random

import sparse_reference
from golden_format import write

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = 24


def lines():
    rng = random.Random(20261121)
    for _ in range(CASES):
        program, answer = sparse_reference.pair(rng)
        yield f"{program} | {answer}"


write(os.path.join(HERE, "sparse.txt"), "make_sparse.py",
      "optimizer dtype rows width options : program (sparse_reference.py) | answer", list(lines()))
