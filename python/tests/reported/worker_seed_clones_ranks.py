"""Workers of the loader are seeded by their own number, which begins at 0 on every rank."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv

class Masked(torch.utils.data.Dataset):
    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        row = self.x[index]
        return row * (torch.rand(row.shape) > 0.3), row.sum().reshape(1)


def seed_worker(worker):
    torch.manual_seed(dist_rank * 1000 + worker if FIXED else worker)


def main():
    global dist_rank
    dist.init_process_group("gloo")
    dist_rank = dist.get_rank()
    torch.manual_seed(0)
    data = Masked(torch.randn(16, 8))
    sampler = torch.utils.data.distributed.DistributedSampler(data)
    loader = torch.utils.data.DataLoader(data, batch_size=4, sampler=sampler, num_workers=1, worker_init_fn=seed_worker)
    ddp = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), y).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
