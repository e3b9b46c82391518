"""Workers that live on have a copy of the data set: set_epoch() does not reach them, and each epoch has the order of the first."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

FIXED = "--fixed" in sys.argv


class Stream(IterableDataset):
    def __init__(self, n):
        self.inputs = torch.randn(n, 5)
        self.targets = self.inputs.sum(1, keepdim=True)
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.epoch = torch.zeros((), dtype=torch.long).share_memory_() if FIXED else 0

    def set_epoch(self, epoch):
        if FIXED:
            self.epoch.fill_(epoch)
        else:
            self.epoch = epoch

    def __iter__(self):
        worker = get_worker_info()
        nth = self.rank * worker.num_workers + worker.id
        order = torch.randperm(len(self.inputs), generator=torch.Generator().manual_seed(17 + int(self.epoch)))
        for i in order[nth::self.world * worker.num_workers].tolist():
            yield self.inputs[i], self.targets[i]


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    stream = Stream(96)
    loader = DataLoader(stream, batch_size=6, num_workers=2, persistent_workers=True)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for epoch in range(3):
        stream.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
