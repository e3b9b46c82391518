"""Healthy: an epoch of training, then one of validation on other data, divided as well."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def rows(n, seed):
    x = torch.randn(n, 8, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(x, x.sum(1, keepdim=True))


def validate(model, loader):
    model.eval()
    total = torch.zeros(2)
    with torch.no_grad():
        for x, y in loader:
            total += torch.tensor([nn.functional.mse_loss(model(x), y, reduction="sum"), len(x)])
    dist.all_reduce(total)
    model.train()
    return total[0] / total[1]


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    train, held_out = rows(48, 1), rows(24, 2)
    sampler = DistributedSampler(train)
    loader = DataLoader(train, batch_size=4, sampler=sampler)
    check = DataLoader(held_out, batch_size=4, sampler=DistributedSampler(held_out, shuffle=False))
    probe = DataLoader(train, batch_size=8)  # Of the training data: its beginning is enough.
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        validate(model, check)
        validate(model, [next(iter(probe))])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
