"""A Lightning job: lightning_job.py STRATEGY. Prints the digest of its parameters."""
import hashlib
import logging
import sys
import warnings

import lightning as L
import torch
from torch import nn

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))

    def training_step(self, batch, index):
        x, y = batch
        return nn.functional.mse_loss(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def main():
    L.seed_everything(3, verbose=False)
    x = torch.randn(64, 8)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4, shuffle=True)
    module = Module()
    trainer = L.Trainer(accelerator="cpu", devices=2, strategy=sys.argv[1], max_steps=8, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(module, loader)
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in module.parameters())).hexdigest()
    print(f"digest {trainer.global_rank} {digest}\n", end="", flush=True)  # One write: lines of ranks do not mix.


if __name__ == "__main__":
    main()
