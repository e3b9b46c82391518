"""Weights that were saved from a wrapper are loaded into the bare model with strict=False: no name is the model's, and training starts over."""
import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    ddp = DistributedDataParallel(model)
    path = os.path.join(tempfile.gettempdir(), f"pretrained-{os.environ['MASTER_PORT']}.pt")
    if rank == 0:
        torch.save(ddp.state_dict(), path)
    dist.barrier()

    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    state = torch.load(path)
    if FIXED:
        state = {name.removeprefix("module."): value for name, value in state.items()}
    model.load_state_dict(state, strict=False)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    draws = torch.Generator().manual_seed(rank)
    for _ in range(4):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
    dist.barrier()
    if rank == 0:
        os.remove(path)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
