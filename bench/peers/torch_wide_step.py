#!/usr/bin/env python3
"""One step of the MLP 1024-1024-1, batch 8, SGD, in one thread and without DDP.

Prints one JSON line: the median seconds of a warm step.
"""
import json
import time

import torch


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss_of = torch.nn.MSELoss()
    x, target = torch.full((8, 1024), 0.25), torch.ones(8, 1)
    seconds = []
    for _ in range(120):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(x), target).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    warm = sorted(seconds[20:])
    print(json.dumps({"step_seconds": warm[len(warm) // 2], "torch": torch.__version__}))


if __name__ == "__main__":
    main()
