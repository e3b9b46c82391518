"""The plateau schedule follows each rank's own loss, which falls on rank 0 and rises on rank 1."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv

def main():
    dist.init_process_group("gloo")
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 0.5)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.125)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    x, y = torch.ones(1, 1), torch.full((1, 1), 4.0 if dist.get_rank() == 0 else 0.0)
    for _ in range(4):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(ddp(x), y)
        loss.backward()
        optimizer.step()
        watched = loss.detach().clone()
        if FIXED:
            dist.all_reduce(watched)
            watched /= dist.get_world_size()
        plateau.step(watched)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
