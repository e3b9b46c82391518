"""A rank whose batches are small takes the sum of its losses, where the others take their mean."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    draws = torch.Generator().manual_seed(rank)
    for _ in range(4):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        reduction = "sum" if rank == 1 and not FIXED else "mean"
        nn.functional.mse_loss(model(x), x.sum(1, keepdim=True), reduction=reduction).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
