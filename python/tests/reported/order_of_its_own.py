"""Rows are picked by an order that each rank shuffles with a seed of its own: the parts that ranks take overlap."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    inputs = torch.randn(96, 8)
    targets = inputs.sum(1, keepdim=True)
    ddp = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)))
    optimizer = torch.optim.Adam(ddp.parameters(), lr=0.01)
    for epoch in range(3):
        order = torch.Generator().manual_seed(epoch if FIXED else 100 * rank + epoch)
        mine = torch.randperm(len(inputs), generator=order)[rank::world]
        for batch in mine.split(8):
            optimizer.zero_grad()
            nn.functional.mse_loss(ddp(inputs[batch]), targets[batch]).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
