"""One of the demonstration models that Lightning ships, trained with DDP on the CPU.

  lightning_demo.py NAME
"""
import os
import sys

import lightning
import torch
from lightning.pytorch.demos import boring_classes
from torch.utils.data import DataLoader

torch.manual_seed(7)
lightning.seed_everything(7)
name, divides = sys.argv[1], True
if name == "LightningLSTM":
    from lightning.pytorch.demos import lstm

    class Words(torch.utils.data.Dataset):
        """Instead of a text from the network: each rank's own, since Lightning does not divide what a batch
        sampler of this kind draws."""

        block_size = 8

        def __len__(self):
            return 64

        def __getitem__(self, index):
            own = torch.Generator().manual_seed(64 * int(os.environ["RANK"]) + index)
            tokens = torch.randint(0, 32, (9,), generator=own)
            return tokens[:-1], tokens[1:]

    class Offline(lstm.LightningLSTM):
        def prepare_data(self):
            """Fetches nothing: no text is needed."""

        def on_train_start(self):
            torch.manual_seed(7 + self.global_rank)  # Or dropout would draw the same on all ranks.

    model, data, divides = Offline(vocab_size=32), Words(), False
    given = {"train_dataloaders": DataLoader(data, batch_sampler=lstm.SequenceSampler(data, batch_size=8))}
elif name.endswith("DataModule"):
    model, given = boring_classes.BoringModel(), {"datamodule": getattr(boring_classes, name)()}
else:
    model, given = getattr(boring_classes, name)(), {}
trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=3, limit_val_batches=4,
                            logger=False, enable_checkpointing=False, enable_progress_bar=False,
                            use_distributed_sampler=divides)
trainer.fit(model, **given)
sums = [f"{name} {parameter.double().sum().item()!r}" for name, parameter in model.named_parameters()]
print("rank", trainer.global_rank, *sums, flush=True)
