#!/usr/bin/env python3
"""One step of the MLP WIDTH-WIDTH-1, batch 8, SGD, in one thread and without DDP.

Prints one JSON line: the median seconds of a warm step at each width, PyTorch's version and its BLAS.

Usage: torch_wide_step.py WIDTH...
"""
import json
import re
import sys
import time

import torch


def blas():
    """As PyTorch's build names it: "mkl", "open", or "generic" for the reference implementation."""
    found = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    return found.group(1) if found else "unknown"


def seconds_of_step(width):
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 1)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss_of = torch.nn.MSELoss()
    x, target = torch.full((8, width), 0.25), torch.ones(8, 1)
    seconds = []
    for _ in range(120):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(x), target).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    warm = sorted(seconds[20:])
    return warm[len(warm) // 2]


def main():
    torch.set_num_threads(1)
    seconds = {width: seconds_of_step(int(width)) for width in sys.argv[1:]}
    print(json.dumps({"step_seconds": seconds, "torch": torch.__version__, "blas": blas()}))


if __name__ == "__main__":
    main()
