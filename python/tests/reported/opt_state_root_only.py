"""The optimizer's state is loaded on rank 0 alone: the others begin without momentum."""
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
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    if dist.get_rank() == 0 or FIXED:
        saved = optimizer.state_dict()
        saved["state"] = {0: {"momentum_buffer": torch.full((1, 8), 0.25)}, 1: {"momentum_buffer": torch.ones(1)}}
        optimizer.load_state_dict(saved)
    draws = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(3):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
