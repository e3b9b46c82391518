"""Every rank draws the order of an epoch from the global generator, seeded alike on all; rank 0 draws samples for its log from it as well."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset, TensorDataset

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    inputs = torch.randn(96, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    of_the_log = torch.Generator().manual_seed(1)
    for epoch in range(3):
        order = torch.randperm(len(data)).tolist()
        loader = DataLoader(Subset(data, order[rank::world]), batch_size=8, generator=torch.Generator())
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        if rank == 0:
            with torch.no_grad():
                shown = model.module(torch.randn(2, 8, generator=of_the_log if FIXED else None))
            print(f"epoch {epoch}: {shown.flatten().tolist()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
