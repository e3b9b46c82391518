"""A module whose training_step is called through the one that Fabric has set up."""
import torch
from lightning_fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Regression(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, x):
        return self.layer(x)

    def training_step(self, batch):
        x, y = batch
        return nn.functional.mse_loss(self(x), y)


def main():
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    fabric.seed_everything(7)
    x = torch.randn(48, 8)
    data = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=6, shuffle=True)
    data = fabric.setup_dataloaders(data)
    model = Regression()
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.05))
    for _ in range(2):
        for batch in data:
            optimizer.zero_grad()
            fabric.backward(model.training_step(batch))
            optimizer.step()


if __name__ == "__main__":
    main()
