"""Tensor parallelism of a feed-forward block over a device mesh: column-wise, then row-wise."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

mesh = init_device_mesh("cpu", (2,))


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.in_proj = nn.Linear(10, 32)
        self.relu = nn.ReLU()
        self.out_proj = nn.Linear(32, 5)

    def forward(self, x):
        return self.out_proj(self.relu(self.in_proj(x)))


torch.manual_seed(0)
whole = ToyModel()
model = ToyModel()
model.load_state_dict(whole.state_dict())
model = parallelize_module(model, mesh, {"in_proj": ColwiseParallel(), "out_proj": RowwiseParallel()})
x = torch.rand(20, 10)
torch.testing.assert_close(model(x), whole(x))
model(x).sum().backward()
assert model.in_proj.weight.grad.to_local().shape == (16, 10)
torch.optim.SGD(model.parameters(), lr=0.1).step()
print(f"done {dist.get_rank()}")
