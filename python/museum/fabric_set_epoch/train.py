"""A sampler of one's own that shuffles by epoch, distributed by Fabric."""
import torch
from lightning_fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset


class ByEpoch(Sampler):
    """Seeds its permutation with the epoch, as DistributedSampler does."""

    def __init__(self, size):
        self.size = size
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return self.size

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.epoch)
        return iter(torch.randperm(self.size, generator=generator).tolist())


def main():
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    fabric.seed_everything(7, verbose=False)
    x = torch.randn(48, 8)
    data = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=6, sampler=ByEpoch(48))
    data = fabric.setup_dataloaders(data)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.05))
    for _ in range(3):  # Fabric's loader calls set_epoch by itself.
        for x, y in data:
            optimizer.zero_grad()
            fabric.backward(nn.functional.mse_loss(model(x), y))
            optimizer.step()


if __name__ == "__main__":
    main()
