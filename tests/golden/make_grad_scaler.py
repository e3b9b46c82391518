"""Writes grad_scaler.txt: the scale, its tracker and the gradients over scripted overflows.

Needs torch 2.3 or newer, whose GradScaler runs on the CPU (that of 1.13 wants CUDA and switches itself
off without). The arithmetic of both is the same: products in double, rounded to float once.
"""

import os
import struct

import torch

from golden_format import write

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = [
    # init, growth, backoff, interval
    (65536.0, 2.0, 0.5, 5),
    (1.0, 1.5, 0.3, 3),
    (3.0, 1.1, 0.7, 1),
    (1e38, 2.0, 0.5, 2),  # Would grow past float's range.
    (1e-44, 4.0, 0.25, 4),  # Sinks to zero.
]
#         good steps, then bad ones, and so on; i, j, n: infinite, minus infinite, not a number
SCRIPT = "gggggggiggggggnjgggggggggggiigggiggggggggggggggg"


def word(tensor):
    return " ".join(struct.pack(">f", value).hex() for value in tensor.detach().reshape(-1).tolist())


def lines():
    for init, growth, backoff, interval in CASES:
        scaler = torch.amp.GradScaler("cpu", init_scale=init, growth_factor=growth,
                                      backoff_factor=backoff, growth_interval=interval)
        parameter = torch.nn.Parameter(torch.tensor([1.0, -0.5]))
        optimizer = torch.optim.SGD([parameter], lr=0.125, foreach=False)
        out = []
        for i, kind in enumerate(SCRIPT):
            weights = torch.tensor([0.1 * i - 1.3, 0.7])
            scaler.scale((parameter * weights).sum())
            optimizer.zero_grad()
            # What backward would leave. Where the product overflows, the step is a bad one, too.
            parameter.grad = weights * scaler._scale
            if kind != "g":
                bad = {"i": float("inf"), "j": float("-inf"), "n": float("nan")}[kind]
                parameter.grad[1] = bad
            scaler.step(optimizer)
            scaler.update()
            out.append(f"{word(scaler._scale)} {int(scaler._get_growth_tracker())} "
                       f"{word(parameter)}")
        yield f"scaler {init!r} {growth!r} {backoff!r} {interval} : {SCRIPT} | {' '.join(out)}"


write(os.path.join(HERE, "grad_scaler.txt"), "make_grad_scaler.py",
      "scaler init growth backoff interval : script | scale tracker parameter, once per step",
      list(lines()))
