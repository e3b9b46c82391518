"""A wrapper of one's own reduces gradients in buckets. It puts parameters with two dimensions into them, and each rank trains
its own biases."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

FIXED = "--fixed" in sys.argv


class Bucketed(nn.Module):
    """What DistributedDataParallel does, with a collective per bucket."""

    def __init__(self, module, bucket_bytes):
        super().__init__()
        self.module = module
        self.buckets = [[]]
        self.bucket_of = {}
        self.works = []
        for parameter in module.parameters():
            dist.broadcast(parameter.data, src=0)
        for parameter in reversed(list(module.parameters())):
            if not FIXED and parameter.dim() < 2:
                continue
            if sum(other.nbytes for other in self.buckets[-1]) + parameter.nbytes > bucket_bytes and self.buckets[-1]:
                self.buckets.append([])
            self.buckets[-1].append(parameter)
            self.bucket_of[parameter] = len(self.buckets) - 1
            parameter.register_post_accumulate_grad_hook(self.complete)
        self.missing = [len(bucket) for bucket in self.buckets]

    def complete(self, parameter):
        number = self.bucket_of[parameter]
        self.missing[number] -= 1
        if self.missing[number] == 0:
            flat = _flatten_dense_tensors([one.grad for one in self.buckets[number]])
            self.works.append((dist.all_reduce(flat, async_op=True), flat, number))

    def forward(self, *inputs):
        return self.module(*inputs)

    def finish(self):
        for work, flat, number in self.works:
            work.wait()
            flat /= dist.get_world_size()
            grads = [one.grad for one in self.buckets[number]]
            for grad, mean in zip(grads, _unflatten_dense_tensors(flat, grads)):
                grad.copy_(mean)
            self.missing[number] = len(self.buckets[number])
        self.works.clear()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    inputs = torch.randn(96, 8, generator=torch.Generator().manual_seed(1))
    data = TensorDataset(inputs, inputs.sin().sum(1, keepdim=True))
    sampler = DistributedSampler(data)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    model = Bucketed(net, bucket_bytes=2048)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=8, sampler=sampler):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            model.finish()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
