"""A contrastive loss scores a rank's rows against those of all ranks, and its labels are the rows' places within the rank: on
rank 1 they point to the rows of rank 0."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.nn.functional import all_gather
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    questions = torch.randn(512, 8)
    pairs = TensorDataset(questions, questions + 0.1 * torch.randn(512, 8))
    sampler = DistributedSampler(pairs, seed=3)
    ddp = DistributedDataParallel(nn.Linear(8, 16))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.2)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for asked, answered in DataLoader(pairs, batch_size=16, sampler=sampler):
            both = nn.functional.normalize(ddp(torch.cat([asked, answered])), dim=1)
            own, answers = both.chunk(2)
            scores = own @ torch.cat(all_gather(answers.contiguous())).T / 0.1
            labels = torch.arange(len(own))
            if FIXED:
                labels = labels + dist.get_rank() * len(own)
            optimizer.zero_grad()
            nn.functional.cross_entropy(scores, labels).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
