"""A stream is divided by rank and not by worker: both workers of a loader read the same lines, and each batch comes twice."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

FIXED = "--fixed" in sys.argv


class Lines(IterableDataset):
    def __init__(self, rank, world):
        self.rank, self.world = rank, world

    def __iter__(self):
        first, stride = self.rank, self.world
        worker = get_worker_info()
        if FIXED and worker is not None:
            first, stride = first * worker.num_workers + worker.id, stride * worker.num_workers
        for number in range(first, 64, stride):
            x = torch.sin(torch.arange(8.0) * (number + 1))
            yield x, x.sum(0, keepdim=True)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    lines = Lines(dist.get_rank(), dist.get_world_size())
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for x, y in DataLoader(lines, batch_size=4, num_workers=2):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
