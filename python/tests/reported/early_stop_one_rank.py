"""Training stops when a rank's own loss is small enough."""
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
    for step in range(6):
        x = torch.randn(4, 8, generator=draws) * (1 if dist.get_rank() == 0 else 0.01)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True) + (step < 3))
        loss.backward()
        optimizer.step()
        small = torch.tensor(float(loss < 0.5))
        if FIXED:
            dist.all_reduce(small, dist.ReduceOp.MIN)
        if small:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
