"""Resumed with four ranks from a run of two: ranks 2 and 3 find no stream of their own and silently keep the script's seed."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv

def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    saved = {0: 40, 1: 41}  # What the run of two ranks left.
    torch.manual_seed(60 + rank if FIXED else 7)
    if rank in saved:
        torch.set_rng_state(torch.Generator().manual_seed(saved[rank]).get_state())
    own = torch.get_rng_state()
    torch.manual_seed(0)
    ddp = DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 1)))
    torch.set_rng_state(own)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    draws = torch.Generator().manual_seed(rank)
    for _ in range(2):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
