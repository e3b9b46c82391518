"""Weights that have died are drawn anew, on each rank from its own stream."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Linear(8, 1)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    draws = torch.Generator().manual_seed(dist.get_rank())
    shared = torch.Generator().manual_seed(5)
    for step in range(4):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
        if step == 1:
            with torch.no_grad():
                model.weight[:, :2] = torch.randn(1, 2, generator=shared if FIXED else draws)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
