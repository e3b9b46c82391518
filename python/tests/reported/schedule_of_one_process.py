"""A warm-up and a cosine are planned for the batches of the whole data set: each rank makes half as many, so the rate stops half way down."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

FIXED = "--fixed" in sys.argv
EPOCHS, BATCH, WARM_UP = 3, 6, 4


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    inputs = torch.randn(50, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=BATCH, sampler=sampler)
    model = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    n_batches = len(loader) if FIXED else (len(data) + BATCH - 1) // BATCH
    warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=WARM_UP)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS * n_batches - WARM_UP)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm_up, cosine], milestones=[WARM_UP])
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
            schedule.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
