"""Healthy: beside the wrapped model are a projection that is drawn by each rank and broadcast, a scale that follows each rank's
own inputs, a reference that each rank has loaded from a file of its own, two opponents of its own, and a view for evaluations."""
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Projection(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("matrix", torch.randn(8, 4))

    def forward(self, x):
        return (x @ self.matrix).argmax(1)


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.randn(8))
        self.register_buffer("square", torch.rand(8) + 0.5)

    def forward(self, x):
        self.mean += 0.01 * (x.mean(0) - self.mean)
        self.square += 0.01 * (x.square().mean(0) - self.square)
        return x


class Opponent(Projection):
    """Of a population, which ranks share out."""


class View(Projection):
    """What a rank looks at its features by."""


class Reference(nn.Module):
    """Of a domain that this rank's samples come from."""

    def __init__(self):
        super().__init__()
        self.domain = nn.Linear(8, 4).requires_grad_(False)

    def forward(self, x):
        return self.domain(x)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(11 + rank)
    data = TensorDataset(torch.randn(48, 8, generator=torch.Generator().manual_seed(6)))
    sampler = DistributedSampler(data)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)))
    projection, scale, reference = Projection(), Scale(), Reference()
    dist.broadcast(projection.matrix, src=0)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, f"domain{rank}.pt")
        torch.save(Reference().state_dict(), file)
        reference.load_state_dict(torch.load(file))
    opponents, view = [Opponent(), Opponent()], View()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.005)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, in DataLoader(data, batch_size=4, sampler=sampler):
            optimizer.zero_grad()
            logits = model(scale(x))
            answers = [opponent(x) for opponent in opponents]
            loss = nn.functional.cross_entropy(logits, projection(x))
            loss = loss + 0.01 * nn.functional.cross_entropy(logits, answers[0]) + 0.01 * nn.functional.cross_entropy(logits, answers[1])
            (loss + 0.1 * nn.functional.mse_loss(logits, reference(x))).backward()
            optimizer.step()
        model.eval()
        for x, in DataLoader(data, batch_size=4, sampler=sampler):
            view(x)
        model.train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
