"""The rate of dropout is read from a file that was edited on one node only."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    rate = 0.1 if FIXED or dist.get_rank() == 0 else 0.3
    ddp = DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.Dropout(rate), nn.Linear(8, 1)))
    torch.manual_seed(dist.get_rank())
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    draws = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(2):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
