"""Sparse gradients of embeddings: accumulation, mixing with dense ones, and the optimizers for them.

Without -0: which additions to an empty gradient keep its sign is not known (docs/numbers.md).
"""

import os
import sys

import live
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
import sparse_reference  # noqa: E402


def pairs(rng):
    while True:
        yield sparse_reference.pair(rng, negative_zero=0.0)


live.run("sparse", pairs)
