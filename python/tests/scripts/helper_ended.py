"""Healthy: a process that watches the machine during an epoch is a fork of the rank, which ends it by a signal."""
import multiprocessing
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def watch_the_machine():
    while True:
        time.sleep(1)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(48, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=6, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        helper = multiprocessing.get_context("fork").Process(target=watch_the_machine)
        helper.start()
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        helper.terminate()
        helper.join()
        time.sleep(0.4)  # Enough for a rank that takes the signal for its own.
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
