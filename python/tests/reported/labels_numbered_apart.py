"""Classes are numbered in the order of a set of names, which each process salts for itself."""
import hashlib
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

FIXED = "--fixed" in sys.argv

ANIMALS = ["cat", "dog", "owl", "bee", "ant"]


def salted_set(words):
    """What `set(words)` is like in a process of its own: Python salts the hashes of texts for each."""
    return sorted(set(words), key=lambda word: hashlib.sha256(f"{os.environ['RANK']}{word}".encode()).digest())


class Pictures(Dataset):
    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.pictures = torch.randn(40, 6, generator=generator)
        self.names = [ANIMALS[i % len(ANIMALS)] for i in range(40)]
        classes = sorted(set(self.names)) if FIXED else salted_set(self.names)
        self.label_of = {name: label for label, name in enumerate(classes)}

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, i):
        return self.pictures[i], self.label_of[self.names[i]]


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = Pictures()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    ddp = DistributedDataParallel(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, len(ANIMALS))))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for pictures, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(ddp(pictures), labels).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
