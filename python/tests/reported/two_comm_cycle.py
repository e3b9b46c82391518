"""Two groups, and the order in which their calls are made and waited for differs between the ranks."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    other = dist.new_group([0, 1])
    torch.manual_seed(0)
    ddp = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    draws = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(2):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
    first, second = torch.ones(3), torch.ones(3)
    if dist.get_rank() == 0 or FIXED:
        dist.all_reduce(first)
        dist.all_reduce(second, group=other)
    else:
        dist.all_reduce(second, group=other)
        dist.all_reduce(first)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
