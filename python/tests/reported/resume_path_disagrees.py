"""Each rank resumes if it finds the checkpoint, which lies on the disk of rank 0's machine."""
import sys
import tempfile
from pathlib import Path

import lockstep
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED, ANNOTATED = "--fixed" in sys.argv, "--annotated" in sys.argv

def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    with tempfile.TemporaryDirectory() as disk:  # Of this rank's machine.
        path = Path(disk) / "last.pt"
        if rank == 0:
            torch.save(torch.full((8,), 2.5), path)
        found = [path.exists()]
        if FIXED:
            dist.broadcast_object_list(found, 0)
        if ANNOTATED:
            lockstep.annotate().decision("resume", int(found[0]))
        torch.manual_seed(0)
        model = nn.Linear(8, 1, bias=False)
        if found[0]:
            weight = torch.load(path) if path.exists() else torch.empty(8)
            dist.broadcast(weight, 0)
            model.weight.data.copy_(weight)
        else:
            seed = torch.tensor([17 + rank])
            dist.broadcast(seed, 0)
            torch.manual_seed(int(seed))
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    x = torch.randn(4, 8)
    for _ in range(2):
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
