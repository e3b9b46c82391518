"""Rank 0 writes the best weights, and all ranks go on from the file at once: without a barrier some may find the one before."""
import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

PATH = os.path.join(tempfile.gettempdir(), f"best-{os.environ['MASTER_PORT']}.pt")


def train(model, optimizer, draws, steps):
    for _ in range(steps):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    draws = torch.Generator().manual_seed(dist.get_rank())
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), PATH)  # So that there is one in any case.
    dist.barrier()
    train(model, optimizer, draws, 3)
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), PATH)
    if "--fixed" in sys.argv:
        dist.barrier()
    model.module.load_state_dict(torch.load(PATH))
    train(model, optimizer, draws, 2)
    if dist.get_rank() == 0:
        os.remove(PATH)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
