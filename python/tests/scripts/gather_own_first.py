"""Healthy: own rows come first and the other ranks' after them; the loss is the same on all ranks, times their number."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def gathered(z):
    rows = [torch.empty_like(z) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, z.contiguous())
    rows.pop(dist.get_rank())
    return torch.cat([z, *rows])


def contrast(a, b):
    labels = torch.arange(len(a))
    logits = nn.functional.normalize(a, dim=1) @ nn.functional.normalize(b, dim=1).T / 0.2
    return nn.functional.cross_entropy(logits, labels)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(48, 8)
    data = TensorDataset(inputs, inputs + 0.1 * torch.randn(48, 8))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=6, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for first, second in loader:
            optimizer.zero_grad()
            a, b = model(torch.cat([first, second])).chunk(2)
            loss = contrast(gathered(a), gathered(b))
            (loss * dist.get_world_size()).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
