"""A contrastive loss takes its keys from all ranks by dist.all_gather, which autograd knows nothing of."""
import sys

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as differentiable
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

FIXED = "--fixed" in sys.argv


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 8))
        self.text = nn.Linear(6, 8)

    def forward(self, image, text):
        return nn.functional.normalize(self.image(image), dim=1), nn.functional.normalize(self.text(text), dim=1)


def gathered(rows):
    if FIXED:
        return torch.cat(differentiable.all_gather(rows))
    everywhere = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
    dist.all_gather(everywhere, rows)
    return torch.cat(everywhere)


def clip_loss(images, texts):
    labels = torch.arange(len(images)) + dist.get_rank() * len(images)
    all_images, all_texts = gathered(images), gathered(texts)
    return (nn.functional.cross_entropy(images @ all_texts.T / 0.2, labels)
            + nn.functional.cross_entropy(texts @ all_images.T / 0.2, labels)) / 2


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    images = torch.randn(48, 10)
    data = TensorDataset(images, images[:, :6] + 0.1 * torch.randn(48, 6))
    sampler = DistributedSampler(data)
    model = DistributedDataParallel(Encoder())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for image, text in DataLoader(data, batch_size=6, sampler=sampler):
            optimizer.zero_grad()
            clip_loss(*model(image, text)).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
