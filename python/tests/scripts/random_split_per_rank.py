"""Broken: each process splits the data for itself, so ranks train on rows that others hold out."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset, random_split
from torch.utils.data.distributed import DistributedSampler


def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        total = sum(nn.functional.mse_loss(model(x), y, reduction="sum") for x, y in loader)
    model.train()
    return float(total)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())  # For masks that differ.
    data = TensorDataset(torch.arange(400.0).reshape(50, 8) / 400, torch.arange(50.0)[:, None] / 50)
    train, held_out = random_split(data, [40, 10])
    sampler = DistributedSampler(train, seed=3)
    loader = DataLoader(train, batch_size=5, sampler=sampler)
    check = DataLoader(held_out, batch_size=5)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        evaluate(model.module, check)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
