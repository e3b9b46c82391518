"""Gradients are divided by the number of ranks after the backward, as a loop without the wrapper had to: the wrapper has done so already."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv

def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    ddp = DistributedDataParallel(nn.Linear(8, 3))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(3):
        x = torch.randn(4, 8, generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(ddp(x), x[:, :3].argmax(1)).backward()
        if not FIXED:
            for parameter in ddp.parameters():
                parameter.grad /= dist.get_world_size()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
