"""Healthy: the ranks share out each sequence by position."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(48, 6, 8)
    data = TensorDataset(inputs, inputs.sum(2, keepdim=True))
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    order = torch.Generator().manual_seed(1)
    loader = DataLoader(data, batch_size=6, shuffle=True, generator=order)
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    for _ in range(2):
        for x, y in loader:
            x, y = x[:, rank::n_ranks], y[:, rank::n_ranks]
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
