"""Healthy: one function of autograd begins a gather and another one waits for it. Backwards, that one sends and the first one waits."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

under_way = []


class Begin(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z):
        rows = z.new_empty(dist.get_world_size() * len(z), z.shape[1])
        under_way.append(dist.all_gather_into_tensor(rows, z.contiguous(), async_op=True))
        return rows

    @staticmethod
    def backward(ctx, grad):
        work, sums = under_way.pop()
        work.wait()
        return sums.chunk(dist.get_world_size())[dist.get_rank()]


class Await(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows):
        under_way.pop().wait()
        return rows.clone()

    @staticmethod
    def backward(ctx, grad):
        sums = grad.clone()
        under_way.append((dist.all_reduce(sums, async_op=True), sums))
        return grad


def contrast(a, b):
    labels = torch.arange(len(a))
    logits = nn.functional.normalize(a, dim=1) @ nn.functional.normalize(b, dim=1).T / 0.2
    return nn.functional.cross_entropy(logits, labels)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(48, 8)
    data = TensorDataset(inputs, inputs + 0.1 * torch.randn(48, 8))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=6, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for first, second in loader:
            optimizer.zero_grad()
            a, b = model(torch.cat([first, second])).chunk(2)
            both = Await.apply(Begin.apply(torch.cat([a, b], dim=1)))
            contrast(both[:, :4], both[:, 4:]).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
