"""One all-reduce for each gradient when clipping, and rank 1 has none for head B: each rank has its own heads."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv

class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, x):
        hidden = self.body(x).relu()
        return self.a(hidden) + self.b(hidden) if dist.get_rank() == 0 else self.a(hidden)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = TwoHeads()
    own = [name for name, _ in model.named_parameters() if not name.startswith("body")]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, own)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(2):
        x = torch.randn(4, 8, generator=generator)
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True)).backward()
        squares = torch.zeros(())
        for parameter in ddp.parameters():
            if parameter.grad is None and not FIXED:
                continue
            square = torch.zeros(()) if parameter.grad is None else parameter.grad.norm().square()
            dist.all_reduce(square)
            squares += square
        if squares.sqrt() > 1e3:
            print("gradients explode")
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
