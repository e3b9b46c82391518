"""The loss to report is read while its all-reduce is still on its way."""
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
        loss = nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        work = dist.all_reduce(mean, async_op=True)
        if FIXED:
            work.wait()
        print("loss", (mean / dist.get_world_size()).item())
        if not FIXED:
            work.wait()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
