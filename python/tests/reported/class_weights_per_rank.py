"""Each rank weighs the classes of its loss by how often they come in its own share of the data."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    inputs = torch.randn(64, 8)
    classes = (inputs.sum(1) > 1.0).long()
    data = TensorDataset(inputs, classes)
    sampler = DistributedSampler(data, seed=3)
    counted = classes if FIXED else classes[list(sampler)]
    weights = len(counted) / (2.0 * torch.bincount(counted, minlength=2))
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    criterion = nn.CrossEntropyLoss(weight=weights)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=8, sampler=sampler):
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
