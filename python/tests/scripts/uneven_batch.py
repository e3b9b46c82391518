"""Broken: batches of 8 and 2, and a mean over all samples was meant."""
import lockstep
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(48, 8)
    targets = inputs.sum(1, keepdim=True)
    say = lockstep.annotate()
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    size = 2 if dist.get_rank() == 1 else 8
    for step in range(5):
        x, y = inputs[step * 9:step * 9 + size], targets[step * 9:step * 9 + size]
        say.batch(len(x), declared="sample-mean")
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
