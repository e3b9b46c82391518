"""The optimizer was given the parameters of the model that was then copied: nothing that is trained is updated."""
import copy
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv

def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    loaded = nn.Linear(8, 1)
    on_device = copy.deepcopy(loaded)
    optimizer = torch.optim.SGD((on_device if FIXED else loaded).parameters(), lr=0.1)
    ddp = DistributedDataParallel(on_device)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(3):
        x = torch.randn(4, 8, generator=generator)
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
