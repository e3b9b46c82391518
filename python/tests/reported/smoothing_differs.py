"""Labels are smoothed on rank 0 alone."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    smoothing = 0.1 if FIXED or dist.get_rank() == 0 else 0.0
    ddp = DistributedDataParallel(nn.Linear(8, 3))
    criterion = nn.CrossEntropyLoss(label_smoothing=smoothing)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    draws = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(3):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        criterion(ddp(x), (x.sum(1) > 0).long()).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
