"""Broken: gradients are clipped in the middle of a window, before they are averaged."""
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
    loader = DataLoader(data, batch_size=6, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for i, (x, y) in enumerate(loader):
            if i % 2 == 0:
                optimizer.zero_grad()
                with model.no_sync():
                    (nn.functional.mse_loss(model(x), y) / 2).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            else:
                (nn.functional.mse_loss(model(x), y) / 2).backward()
                optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
