#!/usr/bin/env python3
"""Writes gpt.txt: initial weights of a small GPT in bits, and balls that hold its values.

Needs PyTorch 1.13 on a machine with AVX2 and an 80-bit long double. Options are: vocab context layers
heads width tied dropout. Words are 32-bit integers listed as golden_format.py does; balls are pairs of
64-bit words, centre and radius.
    init OPTIONS seed | model OPTIONS batch length seed masks_seed tokens targets : words
"""
import os
import struct

import torch

from golden_format import listed, write
from gpt_reference import Gpt, gpt_case

HERE = os.path.dirname(os.path.abspath(__file__))
KEYS = ("vocab", "context", "layers", "heads", "width", "tied", "dropout")
INITS = ((11, 6, 1, 2, 8, 1, 0), (5, 3, 2, 1, 3, 1, 0), (30, 16, 3, 4, 24, 0, 0))
MODELS = ((5, 4, 1, 2, 4, 1, 0), (4, 3, 2, 1, 2, 0, 0), (3, 3, 1, 1, 4, 1, 0.25))


def options_of(values):
    return dict(zip(KEYS, values), tied=bool(values[5]), dropout=float(values[6]))


def text_of(values):
    return " ".join(str(v) for v in values)


def hex_of(value):
    return struct.pack(">d", value).hex()


def balls_text(balls):
    return " ".join(f"{hex_of(c)} {hex_of(r)}" for _, centres, radii in balls
                    for c, r in zip(centres.flatten(), radii.flatten()))


def lines():
    for values in INITS:
        for seed in (0, 1, 2, 7, 42, 99991, 2**40 + 1):
            torch.manual_seed(seed)
            model = Gpt(options_of(values))
            words = [w for p in model.parameters()
                     for w in p.detach().flatten().view(torch.int32).tolist()]
            yield f"init {text_of(values)} {seed} : {listed(words)}"
    for values in MODELS:
        generator = torch.Generator().manual_seed(3)
        tokens, targets = (torch.randint(0, values[0], (2, values[1]), generator=generator)
                           for _ in range(2))
        balls = gpt_case(options_of(values), 17, tokens, targets, 5)
        given = text_of(tokens.flatten().tolist() + targets.flatten().tolist())
        yield f"model {text_of(values)} 2 {values[1]} 17 5 {given} : {balls_text(balls)}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    write(os.path.join(HERE, "gpt.txt"), "make_gpt.py",
          "init OPTIONS seed | model OPTIONS batch length seed masks_seed tokens targets : words",
          list(lines()))
