"""The box loss of a detector is summed and divided by this rank's number of boxes, which differs from rank to rank: boxes of
a rank that has few count for more. The number is to be averaged over the ranks first."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv
MOST_BOXES = 10


def loss_of(boxes, scores, targets, is_box):
    n_boxes = is_box.sum().float()
    if FIXED:
        dist.all_reduce(n_boxes)
        n_boxes = n_boxes / dist.get_world_size()
    distances = nn.functional.l1_loss(boxes, targets, reduction="none").sum(-1)
    box_loss = (distances * is_box).sum() / n_boxes.clamp(min=1.0)
    return nn.functional.binary_cross_entropy_with_logits(scores, is_box.float()) + 5.0 * box_loss


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    ddp = DistributedDataParallel(nn.Linear(8, MOST_BOXES * 5))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(6):
        x = torch.randn(4, 8, generator=generator)
        targets = torch.rand(4, MOST_BOXES, 4, generator=generator)
        is_box = torch.arange(MOST_BOXES) < (2 + 6 * dist.get_rank())  # Scenes of rank 1 are crowded.
        found = ddp(x).view(4, MOST_BOXES, 5)
        optimizer.zero_grad()
        loss_of(found[..., :4], found[..., 4], targets, is_box.expand(4, -1)).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
