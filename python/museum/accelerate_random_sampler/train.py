"""A shuffling loader, prepared by Accelerate, in processes that are seeded by rank."""
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(7 + accelerator.process_index)
    x = torch.arange(48.0 * 8).reshape(48, 8).sin()
    data = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=6, shuffle=True)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    for _ in range(3):
        for x, y in data:
            optimizer.zero_grad()
            accelerator.backward(nn.functional.mse_loss(model(x), y))
            optimizer.step()


if __name__ == "__main__":
    main()
