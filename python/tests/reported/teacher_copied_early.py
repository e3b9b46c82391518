"""The teacher is copied before the wrapper broadcasts rank 0's parameters: each rank's is its own."""
import copy
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    student = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    teacher = copy.deepcopy(student)
    ddp = DistributedDataParallel(student)
    if FIXED:
        teacher.load_state_dict(student.state_dict())
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    draws = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(4):
        x = torch.randn(4, 8, generator=draws)
        with torch.no_grad():
            taught = teacher(x)
        optimizer.zero_grad()
        answer = ddp(x)
        (nn.functional.mse_loss(answer, x.sum(1, keepdim=True)) + nn.functional.mse_loss(answer, taught)).backward()
        optimizer.step()
        with torch.no_grad():
            for average, now in zip(teacher.parameters(), student.parameters()):
                average.lerp_(now, 0.1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
