"""Uneven inputs under the Join context manager, with ZeroRedundancyOptimizer as a second one that joins."""
import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer as ZeRO
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DDP(torch.nn.Linear(1, 1))
optim = ZeRO(model.parameters(), torch.optim.Adam, lr=0.01)
inputs = [torch.ones(1) * i for i in range(3 + rank)]
seen = 0
with Join([model, optim]):
    for batch in inputs:
        optim.zero_grad()
        model(batch).sum().backward()
        optim.step()
        seen += 1
assert seen == len(inputs)
weights = [torch.empty(1, 1) for _ in range(world)]
dist.all_gather(weights, model.module.weight.detach())
assert all(torch.equal(each, weights[0]) for each in weights)
print(f"done {rank}")
