"""Healthy: sharpness-aware minimisation; each rank climbs along the gradient of its own batch, and goes back before the step."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class SAM:
    def __init__(self, parameters, rho=0.05):
        self.parameters, self.rho, self.kept = list(parameters), rho, []

    @torch.no_grad()
    def climb(self):
        norm = torch.stack([p.grad.norm() for p in self.parameters]).norm() + 1e-12
        self.kept = [p.clone() for p in self.parameters]
        for p in self.parameters:
            p.add_(self.rho * p.grad / norm)

    @torch.no_grad()
    def go_back(self):
        for p, kept in zip(self.parameters, self.kept):
            p.copy_(kept)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(48, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    sam = SAM(model.parameters())
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            with model.no_sync():
                nn.functional.mse_loss(model(x), y).backward()
            sam.climb()
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            sam.go_back()
            optimizer.step()
            optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
