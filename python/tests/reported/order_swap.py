"""Losses of a dictionary are reduced in its order, which is that in which each rank met them."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    ddp = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    draws = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(3):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
        counts = {}
        for name in ("cat", "dog") if dist.get_rank() == 0 else ("dog", "cat"):
            counts[name] = torch.ones(2 if name == "cat" else 3)
        for name in sorted(counts) if FIXED else counts:
            dist.all_reduce(counts[name])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
