"""Predictions are gathered although the last batches have different sizes."""
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
    for _ in range(2):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
    ddp.eval()
    n = 4 if FIXED or dist.get_rank() == 0 else 3
    with torch.no_grad():
        own = ddp(torch.randn(n, 8, generator=draws))
    every = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(every, own)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
