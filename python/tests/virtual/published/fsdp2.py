"""FSDP2 as its tutorial has it: every layer and the root are sharded over a mesh."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)
model = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(2)], nn.Linear(8, 2))
for layer in model[:2]:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
assert isinstance(model, FSDPModule)
assert all(isinstance(p, DTensor) for p in model.parameters())
optim = torch.optim.Adam(model.parameters(), lr=1e-2)
first = None
for _ in range(5):
    x = torch.ones(4, 8) * (1 + dist.get_rank())
    loss = model(x).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optim.step()
    optim.zero_grad()
    first = first or loss.item()
assert loss.item() < first
assert model[2].weight.full_tensor().shape == (2, 8)
print(f"done {dist.get_rank()}")
dist.destroy_process_group()
