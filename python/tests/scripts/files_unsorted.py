"""Broken: each rank lists the same files in an order of its own, and a sampler divides the indices."""
import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Files(Dataset):
    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        x = torch.full((8,), float(self.files[index][4:-4]) / 48)
        return x, x.sum().reshape(1)


def listed():
    """As os.listdir() does, whose order is that of a disk."""
    files = [f"row-{i}.npy" for i in range(48)]
    random.Random(dist.get_rank()).shuffle(files)
    return files


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    data = Files(listed())
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=6, sampler=sampler)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
