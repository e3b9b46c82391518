"""A batch sampler of the program's own puts samples of like lengths together; set_epoch() is called on the loader's `sampler`, which is another."""
import random
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

FIXED = "--fixed" in sys.argv
N_WORDS = 16


class Sentences(torch.utils.data.Dataset):
    def __init__(self, n):
        numbers = random.Random(3)
        self.sentences = [[numbers.randrange(1, N_WORDS) for _ in range(numbers.randrange(3, 9))] for _ in range(n)]

    def __len__(self):
        return len(self.sentences)

    def __getitem__(self, index):
        sentence = self.sentences[index]
        return torch.tensor(sentence), sum(sentence) % 2


class ByLength:
    def __init__(self, lengths, batch_size, rank, world):
        self.lengths, self.batch_size, self.rank, self.world = lengths, batch_size, rank, world
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return len(self.lengths) // self.batch_size // self.world

    def __iter__(self):
        numbers = random.Random(5 + self.epoch)
        order = sorted(range(len(self.lengths)), key=lambda index: (self.lengths[index], numbers.random()))
        batches = [order[i:i + self.batch_size] for i in range(0, len(order), self.batch_size)]
        numbers.shuffle(batches)
        for batch in batches[self.rank::self.world]:
            yield batch


def padded(batch):
    sentences, labels = zip(*batch)
    return nn.utils.rnn.pad_sequence(sentences, batch_first=True), torch.tensor(labels)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = Sentences(48)
    batches = ByLength([len(sentence) for sentence in data.sentences], 4, dist.get_rank(), dist.get_world_size())
    loader = DataLoader(data, batch_sampler=batches, collate_fn=padded)
    model = DistributedDataParallel(nn.Sequential(nn.EmbeddingBag(N_WORDS, 8, padding_idx=0), nn.Linear(8, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for epoch in range(3):
        sampler = loader.batch_sampler if FIXED else loader.sampler
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)
        for sentences, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(sentences), labels).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
