"""Sparse gradients of embeddings: accumulation, mixing with dense ones, and the optimizers for them."""

import os
import sys

import live
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
import sparse_reference  # noqa: E402


def pairs(rng):
    while True:
        yield sparse_reference.pair(rng)


live.run("sparse", pairs)
