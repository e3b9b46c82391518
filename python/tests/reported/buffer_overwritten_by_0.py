"""Each rank puts its own keys into a queue, and DDP's broadcast of buffers replaces them by rank 0's."""
import sys

import lockstep
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED, ANNOTATED = "--fixed" in sys.argv, "--annotated" in sys.argv

class QueuedEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 2)
        self.register_buffer("queue", torch.zeros(8, 2))
        self.place = 0

    def forward(self, x):
        y = self.layer(x)
        self.enqueue(y.detach())
        return y + self.queue.mean(0)

    def enqueue(self, keys):
        if FIXED:
            every = torch.empty(len(keys) * dist.get_world_size(), 2)
            dist.all_gather_into_tensor(every, keys)
            keys = every
        self.queue[self.place:self.place + len(keys)] = keys
        self.place = (self.place + len(keys)) % len(self.queue)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    ddp = DistributedDataParallel(QueuedEncoder())
    if ANNOTATED:
        lockstep.annotate().buffers(["queue"], "synced")
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    draws = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(4):
        x = torch.randn(2, 8, generator=draws)
        optimizer.zero_grad()
        ddp(x).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
