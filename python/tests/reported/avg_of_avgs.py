"""Three samples on two ranks: the mean of the ranks' means counts rank 1's one sample as much as rank 0's two."""
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
    x = torch.randn(3, 8)
    ddp = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
    ddp.eval()
    mine = [0, 1] if dist.get_rank() == 0 else [2]
    with torch.no_grad():
        losses = [nn.functional.mse_loss(ddp(x[i:i + 1]), x[i:i + 1].sum(1, keepdim=True)).item() for i in mine]
    total = torch.tensor([sum(losses), len(losses)] if FIXED else [sum(losses) / len(losses), 1.0], dtype=torch.float64)
    dist.all_reduce(total)
    reported = float(total[0] / total[1])
    if ANNOTATED:
        lockstep.annotate().samples(mine, "eval")
        lockstep.annotate().metric("loss", reported, numerator=float(total[0]), denominator=float(total[1]), parts=losses)
    if dist.get_rank() == 0:
        print("loss", reported)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
