"""A distributed sampler of the validation set repeats samples to make ranks even, and the sum of all ranks' errors counts them twice."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

FIXED = "--fixed" in sys.argv


def error_of(model, loader, size):
    model.eval()
    errors = []
    with torch.no_grad():
        for x, y in loader:
            errors.append((model.module(x) - y).square().flatten())
    own = torch.cat(errors)
    if not FIXED:
        total = own.sum()
        dist.all_reduce(total)
        return (total / size).item()
    of_ranks = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(of_ranks, own)
    return torch.stack(of_ranks, 1).flatten()[:size].mean().item()  # The sampler deals samples out one by one.


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    inputs = torch.randn(34, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    train, held_out = torch.utils.data.random_split(data, [24, 10])
    sampler = DistributedSampler(train)
    loader = DataLoader(train, batch_size=4, sampler=sampler)
    validation = DataLoader(held_out, batch_size=2, sampler=DistributedSampler(held_out, shuffle=False))
    for epoch in range(2):
        sampler.set_epoch(epoch)
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        error = error_of(model, validation, len(held_out))
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: {error:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
