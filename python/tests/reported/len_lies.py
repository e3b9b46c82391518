"""A sampler leaves damaged rows out and declares its length before it has looked: rank 1 has a batch less."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv

DAMAGED = 3


class Undamaged(torch.utils.data.Sampler):
    def __init__(self, size):
        self.mine = range(dist.get_rank(), size, dist.get_world_size())

    def __len__(self):
        return len(self.mine)

    def __iter__(self):
        return iter([row for row in self.mine if FIXED or row != DAMAGED])  # Mended: it has weight 0 in the loss.


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    x = torch.randn(6, 8)
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True), (torch.arange(6) != DAMAGED).float())
    loader = torch.utils.data.DataLoader(data, batch_size=1, sampler=Undamaged(len(data)))
    ddp = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for rows, targets, weight in loader:
        optimizer.zero_grad()
        (weight * (ddp(rows) - targets).square().squeeze(1)).mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
