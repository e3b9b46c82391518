"""Optimizers on f16 and bf16 parameters: elements and state, 300 cases in every bit.

PyTorch rounds after each operation of a step. Its vectorised additions with a factor round once, what is left over of
their last step twice: cases are long enough to have both.
"""

import os

os.environ["ATEN_CPU_CAPABILITY"] = "avx2"  # Read as PyTorch is imported.

import live
import optim
import torch

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}


def pairs(rng):
    torch.set_num_threads(1)
    while True:
        yield optim.optimizer_case(rng, optim.KINDS, DTYPES, longest=100)


if __name__ == "__main__":
    live.run("optim16", pairs)
