"""A rank leaves the log of an outlier out: its next collective meets the others' log, and all later ones are shifted."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    draws = torch.Generator().manual_seed(dist.get_rank())
    for step in range(4):
        x = torch.randn(8, 4, generator=draws)
        if step == 2 and dist.get_rank() == 1:
            x *= 20.0  # What rank 1 has been given there.
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        is_outlier = loss.item() > 100.0
        log = torch.tensor([0.0, 0.0] if is_outlier else [loss.item(), 1.0])
        if FIXED or not is_outlier:
            dist.all_reduce(log)
        rows = torch.tensor([float(len(x)), x.abs().sum().item()])
        dist.all_reduce(rows)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
