"""Rank 0 validates after each epoch and forgets model.eval(): batch norm takes the validation set in."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

FIXED = "--fixed" in sys.argv


def validate(model, inputs, targets):
    total = 0.0
    with torch.no_grad():
        for x, y in zip(inputs.split(4), targets.split(4)):
            total += nn.functional.mse_loss(model(x), y).item()
    return total


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    inputs = torch.randn(36, 8)
    targets = inputs.sum(1, keepdim=True)
    train = TensorDataset(inputs[:24], targets[:24])
    sampler = DistributedSampler(train)
    loader = DataLoader(train, batch_size=2, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        if dist.get_rank() == 0:
            if FIXED:
                model.eval()
            print("validation", validate(model.module, inputs[24:], targets[24:]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
