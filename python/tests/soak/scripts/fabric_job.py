"""In the style of Lightning Fabric: a plain loop, set up. Prints the digest of its parameters."""
import hashlib
import warnings

import torch
from lightning.fabric import Fabric
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
fabric.launch()
fabric.seed_everything(2, verbose=False)
x = torch.randn(32, 6)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
loader = fabric.setup_dataloaders(DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4, shuffle=True))
for number, (inputs, targets) in enumerate(loader):
    accumulates = number % 2 == 0
    with fabric.no_backward_sync(model, enabled=accumulates):
        fabric.backward(torch.nn.functional.mse_loss(model(inputs), targets))
    if not accumulates:
        optimizer.step()
        optimizer.zero_grad()
loss = fabric.all_reduce(torch.ones(1), reduce_op="sum")
assert loss.item() == fabric.world_size
digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
print(f"digest {fabric.global_rank} {digest}\n", end="", flush=True)  # One write: lines of ranks do not mix.
