"""Layers of one's own gather their parameters in the forward and scatter their gradients in the backward. Each rank clips its shards
by their own norm."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

FIXED = "--fixed" in sys.argv
LIMIT = 0.1


class Gathered(torch.autograd.Function):
    """All shards, one after the other; in the backward the mean of the ranks' gradients of this shard."""

    @staticmethod
    def forward(ctx, shard):
        whole = torch.empty(shard.numel() * dist.get_world_size())
        dist.all_gather_into_tensor(whole, shard.detach())
        return whole

    @staticmethod
    def backward(ctx, grad):
        shard = torch.empty(grad.numel() // dist.get_world_size())
        dist.reduce_scatter_tensor(shard, grad.contiguous())
        return shard / dist.get_world_size()


class ShardedLinear(nn.Module):
    def __init__(self, n_inputs, n_outputs):
        super().__init__()
        self.shape = n_outputs, n_inputs
        weight = nn.Linear(n_inputs, n_outputs, bias=False).weight.detach()
        self.shard = nn.Parameter(weight.flatten().chunk(dist.get_world_size())[dist.get_rank()].clone())

    def forward(self, x):
        return nn.functional.linear(x, Gathered.apply(self.shard).view(self.shape))


def clip(parameters):
    if not FIXED:
        nn.utils.clip_grad_norm_(parameters, LIMIT)
        return
    squares = sum(parameter.grad.square().sum() for parameter in parameters)
    dist.all_reduce(squares)
    factor = LIMIT / max(squares.sqrt().item(), LIMIT)
    for parameter in parameters:
        parameter.grad *= factor


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(ShardedLinear(8, 32), nn.ReLU(), ShardedLinear(32, 2))
    inputs = torch.randn(96, 8)
    data = TensorDataset(inputs, inputs[:, :2].sin())
    sampler = DistributedSampler(data)
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=8, sampler=sampler):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            clip(parameters)
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
