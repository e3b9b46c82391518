"""A moving average is kept on every rank, of batch norm's running statistics too, which are each rank's own."""
import copy
import sys

import lockstep
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED, ANNOTATED = "--fixed" in sys.argv, "--annotated" in sys.argv

def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    ddp = DistributedDataParallel(model)
    ema = copy.deepcopy(model).requires_grad_(False)
    if ANNOTATED:
        lockstep.annotate().replicated("ema", ema.state_dict())
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    draws = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(3):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
        if FIXED:
            for buffer in model.buffers():
                dist.broadcast(buffer, 0)
        for average, now in zip(ema.state_dict().values(), model.state_dict().values()):
            if average.is_floating_point():
                average.lerp_(now, 0.5)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
