"""A rank whose batches are small keeps batch norm in evaluation mode; the others train it."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def freeze_batch_norm(model):
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.Flatten(),
        nn.Linear(64, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    size = 2 if rank == 1 else 8
    draws = torch.Generator().manual_seed(rank)
    model.train()
    if FIXED or size < 4:
        freeze_batch_norm(model)
    for _ in range(4):
        images = torch.randn(size, 1, 8, 8, generator=draws)
        optimizer.zero_grad()
        model(images).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
