"""Healthy: rank 0 saves a snapshot after each epoch, a restart goes on after it. Run with --max-restarts 1 and the folder
of the snapshot."""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

EPOCHS = 3


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(48, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    epochs_run, path = 0, os.path.join(sys.argv[1], "snapshot.pt")
    if os.path.exists(path):
        snapshot = torch.load(path)
        model.load_state_dict(snapshot["MODEL_STATE"])
        epochs_run = snapshot["EPOCHS_RUN"]
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(epochs_run, EPOCHS):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        if dist.get_rank() == 0:
            torch.save({"MODEL_STATE": model.module.state_dict(), "EPOCHS_RUN": epoch + 1}, path)
        dist.barrier()
        if epoch == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            sys.exit(1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
