"""Validation gathers predictions into a list that holds one tensor several times: the last rank's are counted for all ranks."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

FIXED = "--fixed" in sys.argv


def gathered(own):
    world = dist.get_world_size()
    if FIXED:
        everyone = [torch.zeros_like(own) for _ in range(world)]
    else:
        everyone = [torch.zeros_like(own)] * world
    dist.all_gather(everyone, own)
    return torch.cat(everyone)


def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        right = torch.cat([(model(x).argmax(1) == y).float() for x, y in loader])
    model.train()
    return gathered(right).mean().item()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    inputs = torch.randn(64, 8)
    data = TensorDataset(inputs, (inputs.sum(1) > 0).long())
    sampler = DistributedSampler(data, seed=3)
    held_out = DataLoader(data, batch_size=8, sampler=DistributedSampler(data, shuffle=False))
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=8, sampler=sampler):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        accuracy = evaluate(model.module, held_out)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: accuracy {accuracy:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
