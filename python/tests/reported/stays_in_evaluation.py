"""The model is evaluated after each epoch, and nothing calls train() again: from the second epoch on there is no dropout."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

FIXED = "--fixed" in sys.argv


def evaluate(model, inputs, targets):
    model.eval()
    with torch.no_grad():
        total = nn.functional.mse_loss(model(inputs), targets)
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    inputs = torch.randn(48, 8)
    targets = inputs.sum(1, keepdim=True)
    torch.manual_seed(1 + dist.get_rank())
    data = TensorDataset(inputs, targets)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=6, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        if FIXED:
            model.train()
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        evaluate(model, inputs[:8], targets[:8])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
