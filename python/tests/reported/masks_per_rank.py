"""Weights are pruned after the model was wrapped, and each rank draws a mask of its own. The model had no buffers then, so
DDP broadcasts none: ranks average gradients of different models."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import prune

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    if FIXED:
        prune.random_unstructured(model[0], "weight", amount=0.5)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(4):
        if step == 2 and not FIXED:
            prune.random_unstructured(ddp.module[0], "weight", amount=0.5)
        inputs = torch.randn(4, 8)
        optimizer.zero_grad()
        ddp(inputs).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
