"""Manual optimisation under DDPStrategy(static_graph=True)."""
import os

import pytorch_lightning as pl
import torch
from pytorch_lightning.strategies import DDPStrategy
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Regression(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.layer = nn.Linear(8, 1)

    def training_step(self, batch, index):
        x, y = batch
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(nn.functional.mse_loss(self.layer(x), y))
        optimizer.step()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def main():
    pl.seed_everything(7, verbose=False)
    x = torch.randn(48, 8)
    data = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=6, shuffle=True)
    trainer = pl.Trainer(
        accelerator="cpu", devices=int(os.environ["WORLD_SIZE"]), max_epochs=2, logger=False,
        strategy=DDPStrategy(static_graph=True), enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Regression(), data)


if __name__ == "__main__":
    main()
