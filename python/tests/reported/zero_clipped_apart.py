"""ZeRO by hand: each rank steps its shard of all parameters, and clips the gradient of that shard by its own norm instead of
the norm of all shards."""
import sys

import torch
import torch.distributed as dist
from torch import nn

FIXED = "--fixed" in sys.argv
MAX_NORM = 0.25


class ShardedSgd:
    def __init__(self, parameters, lr):
        self.parameters = list(parameters)
        self.n_elements = -(-sum(p.numel() for p in self.parameters) // dist.get_world_size())
        self.shard = nn.Parameter(self.own_part(self.flat(self.parameters)).detach().clone())
        self.inner = torch.optim.SGD([self.shard], lr=lr, momentum=0.9)

    def flat(self, tensors):
        joined = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
        return nn.functional.pad(joined, (0, self.n_elements * dist.get_world_size() - joined.numel()))

    def own_part(self, flat):
        first = self.n_elements * dist.get_rank()
        return flat[first:first + self.n_elements]

    def clip(self):
        square = self.shard.grad.square().sum()
        if FIXED:
            dist.all_reduce(square)
        self.shard.grad.mul_((MAX_NORM / (square.sqrt() + 1e-6)).clamp(max=1.0))

    @torch.no_grad()
    def step(self):
        gradients = self.flat([p.grad for p in self.parameters])
        dist.all_reduce(gradients)
        self.shard.grad = self.own_part(gradients / dist.get_world_size()).clone()
        self.clip()
        self.inner.step()
        shards = [torch.empty_like(self.shard) for _ in range(dist.get_world_size())]
        dist.all_gather(shards, self.shard.detach())
        whole = torch.cat(shards)
        for p in self.parameters:
            p.copy_(whole[:p.numel()].view_as(p))
            whole = whole[p.numel():]


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = ShardedSgd(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(4):
        x = torch.randn(16, 6, generator=generator)
        for p in model.parameters():
            p.grad = None
        nn.functional.mse_loss(model(x), 3.0 * x.sum(1, keepdim=True)).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
