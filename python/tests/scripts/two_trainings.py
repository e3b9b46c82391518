"""A sweep: one model after another in one process, each with the folds, the seed and the epochs of the
one before. The first is stopped in the middle of an epoch."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset


def loader_of(data):
    return DataLoader(data, batch_size=4, sampler=DistributedSampler(data))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    x = torch.randn(72, 8)
    data = TensorDataset(x, x.sum(1, keepdim=True))
    for fold, lr in enumerate((0.1, 0.05, 0.02)):
        held_out = set(range(24 * fold, 24 * fold + 16))
        training = loader_of(Subset(data, [i for i in range(72) if i not in held_out]))
        validation = loader_of(Subset(data, sorted(held_out)))
        torch.manual_seed(dist.get_rank())
        model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
        optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        for epoch in range(1 + fold):
            training.sampler.set_epoch(epoch)
            model.train()
            for step, (x, y) in enumerate(training):
                optimizer.zero_grad()
                nn.functional.mse_loss(model(x), y).backward()
                optimizer.step()
                if fold == 0 and step == 2:
                    break
            model.eval()
            with torch.no_grad():
                for x, y in validation:
                    model(x)


if __name__ == "__main__":
    main()
