"""After the first step the weight visits the CPU, and a new parameter comes back: DDP's hooks are on the old one."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv

def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Linear(8, 1)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for step in range(3):
        if step == 1:
            on_host = model.weight.detach().clone()
            if FIXED:
                model.weight.data.copy_(on_host)
            else:
                model.weight = nn.Parameter(on_host)
                optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        x = torch.randn(4, 8, generator=generator)
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
