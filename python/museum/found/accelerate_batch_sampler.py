"""A batch sampler of one's own that shuffles by epoch, prepared by Accelerate."""
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class BatchesByEpoch:
    """Seeds its permutation with the epoch, as DistributedSampler does."""

    def __init__(self, size, batch_size):
        self.size, self.batch_size, self.drop_last = size, batch_size, False
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return self.size // self.batch_size

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.epoch)
        order = torch.randperm(self.size, generator=generator).tolist()
        return iter([order[at:at + self.batch_size] for at in range(0, self.size, self.batch_size)])


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(7)
    x = torch.randn(48, 8)
    data = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_sampler=BatchesByEpoch(48, 6))
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    for epoch in range(3):
        data.set_epoch(epoch)
        for x, y in data:
            optimizer.zero_grad()
            accelerator.backward(nn.functional.mse_loss(model(x), y))
            optimizer.step()


if __name__ == "__main__":
    main()
