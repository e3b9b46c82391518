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


NAN_BITS = {"f16": 0x7C00, "bf16": 0x7F80}  # Above them, but for the sign.


class Answer:
    """Words that must come back; one NaN is as good as another."""

    def __init__(self, dtype, text):
        self.limit = NAN_BITS[dtype]
        self.words = self.plain(text)

    def plain(self, text):
        return ["nan" if int(w, 16) & 0x7FFF > self.limit else w for w in text.split()]

    def accepts(self, got):
        return self.plain(got) == self.words

    def __str__(self):
        return " ".join(self.words)


def pairs(rng):
    torch.set_num_threads(1)
    while True:
        case, text = optim.optimizer_case(rng, optim.KINDS, DTYPES, longest=100)
        yield case, Answer(case.split()[1], text)


if __name__ == "__main__":
    live.run("optim16", pairs)
