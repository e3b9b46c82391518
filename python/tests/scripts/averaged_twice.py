"""Broken: an optimizer divides by the batch of all ranks, and averages over the ranks as well."""
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

BATCH = 4


class MeanOverAll(torch.optim.SGD):
    """Its gradients are those of the mean over the batch of all ranks."""

    def __init__(self, parameters, batch_of_all, **options):
        super().__init__(parameters, **options)
        self.batch_of_all = batch_of_all

    def reduce(self, batch):
        for parameter in self.param_groups[0]["params"]:
            parameter.grad *= batch / self.batch_of_all
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(48, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=BATCH, sampler=sampler)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = MeanOverAll(model.parameters(), BATCH * dist.get_world_size(), lr=0.05, momentum=0.9)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.reduce(len(x))
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
