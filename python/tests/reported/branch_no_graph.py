"""A batch without targets gives a loss without a graph, and rank 1 leaves its backward out."""
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
    for step in range(4):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        out = ddp(x)
        has_targets = not (dist.get_rank() == 1 and step == 2)
        if has_targets:
            loss = (out - 1).square().mean()
        else:
            loss = out.sum() * 0 if FIXED else torch.zeros(())
        if loss.requires_grad:
            loss.backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
