"""A signal to stop reaches rank 1 alone, which acts on it by itself."""
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


stop = False


def on_signal(_number, _frame):
    global stop
    stop = True


def main():
    dist.init_process_group("gloo")
    signal.signal(signal.SIGUSR1, on_signal)
    torch.manual_seed(0)
    ddp = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    draws = torch.Generator().manual_seed(dist.get_rank())
    for step in range(4):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
        if step == 1 and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGUSR1)
        flag = torch.tensor(float(stop))
        if FIXED:
            dist.all_reduce(flag, dist.ReduceOp.MAX)
        if flag:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
