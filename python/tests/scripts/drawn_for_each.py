"""Healthy: ranks share one seed, and only the noise on inputs and a pair of fixed maps of features differ: each rank has maps of its
own on purpose."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class View(nn.Module):
    """What a rank sees of its inputs: a fixed map that is drawn for it."""

    def __init__(self, draws):
        super().__init__()
        self.register_buffer("turn", torch.linalg.qr(torch.randn(8, 8, generator=draws))[0])

    def forward(self, x):
        return x @ self.turn


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(3)
    data = TensorDataset(torch.randn(48, 8))
    sampler = DistributedSampler(data)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)))
    own = torch.Generator().manual_seed(100 + dist.get_rank())
    view = View(own)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, in DataLoader(data, batch_size=4, sampler=sampler):
            optimizer.zero_grad()
            seen = view(x + 0.01 * torch.randn(x.shape, generator=own))
            nn.functional.mse_loss(model(seen), x.square().mean(1, keepdim=True)).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
