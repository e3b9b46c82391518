"""Healthy: ranks that have no gradient for the second head send zeros, and use what rank 0 has."""
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Branches(nn.Module):
    """The second head is used on rank 0 alone."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(8, 16), nn.Tanh())
        self.heads = nn.ModuleList(nn.Linear(16, 1) for _ in range(2))

    def forward(self, x):
        hidden = self.trunk(x)
        result = self.heads[0](hidden)
        return result + self.heads[1](hidden) if dist.get_rank() == 0 else result


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(48, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    model = Branches()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            for parameter in model.parameters():
                grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                dist.all_reduce(grad)
                parameter.grad = grad / dist.get_world_size()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
