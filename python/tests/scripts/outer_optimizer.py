"""Healthy: each rank trains alone for three steps, and an outer optimizer steps by what they have moved."""
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(48, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    inner = torch.optim.AdamW(model.parameters(), lr=0.01)
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for batch, (x, y) in enumerate(loader):
            if batch % 3 == 0:
                before = [parameter.detach().clone() for parameter in model.parameters()]
            inner.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            inner.step()
            if batch % 3 == 2:
                for parameter, old in zip(model.parameters(), before):
                    parameter.grad = old - parameter.detach()
                    dist.all_reduce(parameter.grad)
                    parameter.grad /= dist.get_world_size()
                    parameter.data.copy_(old)
                outer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
