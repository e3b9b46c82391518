"""The norm is clipped after the step, so it clips gradients that have been used and are about to be cleared."""
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
    for _ in range(4):
        x = torch.randn(4, 8, generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(ddp(x), x[:, :3].argmax(1)).backward()
        if FIXED:
            nn.utils.clip_grad_norm_(ddp.parameters(), 0.125)
        optimizer.step()
        if not FIXED:
            nn.utils.clip_grad_norm_(ddp.parameters(), 0.125)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
