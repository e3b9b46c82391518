"""Rank 0 leaves the last rank out of a group that the others make with it: all wait while it is made."""
import sys

import torch
import torch.distributed as dist
from torch import nn

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    everyone = list(range(dist.get_world_size()))
    group = dist.new_group(everyone if FIXED or dist.get_rank() != 0 else everyone[:-1])
    loss = nn.Linear(8, 1)(torch.randn(4, 8)).mean().detach()
    dist.all_reduce(loss, group=group)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
