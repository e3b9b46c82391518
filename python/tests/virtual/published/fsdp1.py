"""FullyShardedDataParallel with an auto-wrap policy and a full state dict on rank 0."""
import functools

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel as FSDP, StateDictType
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

dist.init_process_group("gloo")
torch.manual_seed(0)
policy = functools.partial(size_based_auto_wrap_policy, min_num_params=20)
model = FSDP(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)), auto_wrap_policy=policy, device_id=torch.device("cpu"))
optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
for _ in range(2):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(offload_to_cpu=True, rank0_only=True)):
    state = model.state_dict()
assert bool(state) == (dist.get_rank() == 0)
print(f"done {dist.get_rank()}")
