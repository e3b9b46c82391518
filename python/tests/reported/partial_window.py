"""Five micro-batches an epoch and windows of four: the fifth stays in the gradients, and the next epoch uses it."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv

PER_EPOCH, WINDOW = 5, 4


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    ddp = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    x = torch.randn(PER_EPOCH * 2, 8)
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    sampler = torch.utils.data.distributed.DistributedSampler(data)
    loader = torch.utils.data.DataLoader(data, batch_size=1, sampler=sampler)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for i, (rows, targets) in enumerate(loader):
            flush = FIXED and i + 1 == PER_EPOCH
            window = PER_EPOCH % WINDOW if flush else WINDOW
            if (i + 1) % WINDOW != 0 and not flush:
                with ddp.no_sync():
                    (nn.functional.mse_loss(ddp(rows), targets) / window).backward()
                continue
            (nn.functional.mse_loss(ddp(rows), targets) / window).backward()
            optimizer.step()
            optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
