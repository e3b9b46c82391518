"""Each rank lists the shards in the order of its own disk: equal indices are other files."""
import sys

import lockstep
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED, ANNOTATED = "--fixed" in sys.argv, "--annotated" in sys.argv

def listed():
    """What the disk of each machine lists, in the order in which it happens to keep the names."""
    names = [f"shard-{i}" for i in range(8)]
    return names[::-1] if dist.get_rank() == 1 else names


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    contents = {f"shard-{i}": torch.randn(8) for i in range(8)}
    files = sorted(listed()) if FIXED else listed()
    if ANNOTATED:
        lockstep.annotate().configuration("files", "\n".join(files))
    rows = torch.stack([contents[name] for name in files])
    data = torch.utils.data.TensorDataset(rows, rows.sum(1, keepdim=True))
    sampler = torch.utils.data.distributed.DistributedSampler(data, shuffle=False)
    loader = torch.utils.data.DataLoader(data, batch_size=2, sampler=sampler)
    ddp = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), y).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
