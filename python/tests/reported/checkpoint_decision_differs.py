"""Each rank judges by its own validation loss whether this is the best model yet, and saving has a barrier."""
import sys
import tempfile

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
    draws = torch.Generator().manual_seed(dist.get_rank())
    best = float("inf")
    with tempfile.TemporaryDirectory() as folder:
        for epoch in range(3):
            x = torch.randn(4, 8, generator=draws)
            optimizer.zero_grad()
            nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True)).backward()
            optimizer.step()
            loss = torch.tensor(1.0 / (epoch + 1) if dist.get_rank() == 0 else 1.0 + epoch)
            if FIXED:
                dist.all_reduce(loss)
            if loss < best:
                best = float(loss)
                if dist.get_rank() == 0:
                    torch.save(ddp.module.state_dict(), f"{folder}/best.pt")
                dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
