"""Differentially private training on two ranks, without noise and clipping, to see the averages."""
import torch
import torch.distributed as dist
from opacus import PrivacyEngine
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel as DPDDP
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    x = torch.randn(48, 8)
    data = TensorDataset(x, x.sum(1, keepdim=True))
    data = DataLoader(data, batch_size=6, sampler=DistributedSampler(data))
    model = DPDDP(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer, data = PrivacyEngine().make_private(
        module=model, optimizer=optimizer, data_loader=data, noise_multiplier=0.0,
        max_grad_norm=1e6, poisson_sampling=False)
    for x, y in data:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
