"""ZeroRedundancyOptimizer with its state gathered to one rank for a checkpoint."""
import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DDP(torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(4)]))
optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
for _ in range(2):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(torch.randn(4, 8)), torch.randn(4, 8)).backward()
    optimizer.step()
optimizer.consolidate_state_dict(to=0)
if rank == 0:
    assert len(optimizer.state_dict()["state"]) == 8
print(f"done {rank}")
