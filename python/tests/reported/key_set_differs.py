"""Every metric of a dictionary is reduced, and the accuracy is in it only where a batch had pairs."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv

def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    ddp = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(2):
        x = torch.randn(4, 8, generator=generator)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        metrics = {"loss": loss.detach()}
        if dist.get_rank() == 0:
            metrics["accuracy"] = torch.tensor(0.5)
        elif FIXED:
            metrics["accuracy"] = torch.tensor(0.0)
        for name in sorted(metrics):
            dist.all_reduce(metrics[name])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
