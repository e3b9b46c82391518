"""torch.distributed.checkpoint: a model saved by two ranks, loaded into a fresh one."""
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")


def make():
    model = torch.nn.Linear(6, 4)
    fully_shard(model, mesh=dist.init_device_mesh("cpu", (dist.get_world_size(),)))
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)


torch.manual_seed(0)
model, optimizer = make()
model(torch.ones(2, 6)).sum().backward()
optimizer.step()
before = model.weight.full_tensor()
state, optimizer_state = get_state_dict(model, optimizer)
dcp.save({"model": state, "optim": optimizer_state}, checkpoint_id=sys.argv[1] + "/checkpoint")
torch.manual_seed(1)
model, optimizer = make()
assert not torch.equal(model.weight.full_tensor(), before)
state, optimizer_state = get_state_dict(model, optimizer)
dcp.load({"model": state, "optim": optimizer_state}, checkpoint_id=sys.argv[1] + "/checkpoint")
set_state_dict(model, optimizer, model_state_dict=state, optim_state_dict=optimizer_state)
assert torch.equal(model.weight.full_tensor(), before)
print(f"done {dist.get_rank()}")
