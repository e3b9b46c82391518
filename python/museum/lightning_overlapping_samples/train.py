"""A shuffling loader in a Trainer whose processes were not given one seed."""
import os

import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Regression(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def training_step(self, batch, index):
        x, y = batch
        return nn.functional.mse_loss(self.layer(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def main():
    torch.manual_seed(7 + int(os.environ["RANK"]))
    x = torch.arange(48.0 * 8).reshape(48, 8).sin()
    data = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=6, shuffle=True)
    trainer = pl.Trainer(
        accelerator="cpu", devices=int(os.environ["WORLD_SIZE"]), max_epochs=2, logger=False,
        strategy="ddp", enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False)
    trainer.fit(Regression(), data)


if __name__ == "__main__":
    main()
