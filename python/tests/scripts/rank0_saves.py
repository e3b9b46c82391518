"""Healthy: rank 0 evaluates, logs and saves; all ranks load."""
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(48, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        if dist.get_rank() == 0:
            model.module.eval()
            with torch.no_grad():
                print("loss", nn.functional.mse_loss(model.module(inputs), inputs.sum(1, keepdim=True)))
            model.module.train()
            path = os.path.join(tempfile.gettempdir(), f"lockstep-{os.environ['MASTER_PORT']}.pt")
            torch.save(model.module.state_dict(), path)
        dist.barrier()
    path = os.path.join(tempfile.gettempdir(), f"lockstep-{os.environ['MASTER_PORT']}.pt")
    model.module.load_state_dict(torch.load(path))
    optimizer.zero_grad()
    nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True)).backward()
    optimizer.step()
    dist.barrier()
    if dist.get_rank() == 0:
        os.remove(path)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
