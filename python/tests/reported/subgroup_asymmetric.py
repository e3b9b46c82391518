"""Each rank makes only the group that it is going to use: ranks 0 and 3 one, ranks 1 and 2 another."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv

def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    outer, inner = [0, 3], [1, 2]
    if FIXED:
        groups = dist.new_group(outer), dist.new_group(inner)
        group = groups[rank in inner]
    else:
        group = dist.new_group(outer if rank in outer else inner)
    torch.manual_seed(0)
    ddp = DistributedDataParallel(nn.Linear(8, 1), process_group=group)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(2):
        x = torch.randn(4, 8, generator=generator)
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
