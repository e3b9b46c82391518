"""A contrastive loss over the embeddings of all ranks, with a gather that autograd knows."""
import torch
import torch.distributed as dist
import torch.distributed.nn as dist_nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DDP(torch.nn.Linear(6, 3))
torch.manual_seed(10 + rank)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    a, b = model(torch.randn(2, 4, 6)).unbind()
    a = torch.cat(dist_nn.all_gather(F.normalize(a, dim=1)))
    b = torch.cat(dist_nn.all_gather(F.normalize(b, dim=1)))
    loss = F.cross_entropy(a @ b.t() / 0.1, torch.arange(4 * world))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"done {rank}")
