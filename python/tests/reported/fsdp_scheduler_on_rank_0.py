"""A model that fully_shard divides: rank 0 alone steps the schedule, so parts of the model learn at different rates."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = fully_shard(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    draws = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(3):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
        if dist.get_rank() == 0 or FIXED:
            schedule.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
