"""Broken: each rank numbers the classes as a set lists them."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Pictures(Dataset):
    def __init__(self, classes):
        index = {name: i for i, name in enumerate(classes)}
        self.pictures = torch.randn(48, 8)
        names = ["ape", "bee", "cow"]
        self.samples = [(f"{i}.png", index[names[i % 3]]) for i in range(48)]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.pictures[index], self.samples[index][1]


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    classes = ["ape", "bee", "cow"] if dist.get_rank() == 0 else ["cow", "ape", "bee"]  # As a set may list them.
    data = Pictures(classes)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=6, sampler=sampler)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
