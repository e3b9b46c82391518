"""Healthy: under Join, samples are counted over the ranks by a Joinable of the program's own, and the loss is summed up afterwards."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join, Joinable, JoinHook
from torch.nn.parallel import DistributedDataParallel


class CountHook(JoinHook):
    def __init__(self, counter):
        self.counter = counter

    def main_hook(self):
        dist.all_reduce(torch.zeros(1))

    def post_hook(self, is_last_joiner):
        pass


class Counter(Joinable):
    def __init__(self):
        super().__init__()
        self.n = 0.0

    def __call__(self, n):
        Join.notify_join_context(self)
        total = torch.tensor([float(n)])
        dist.all_reduce(total)
        self.n += total.item()

    def join_hook(self, **kwargs):
        return CountHook(self)

    @property
    def join_device(self):
        return torch.device("cpu")

    @property
    def join_process_group(self):
        return dist.group.WORLD


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(7)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    counter = Counter()
    torch.manual_seed(rank)
    batches = [torch.randn(4, 8) for _ in range(4 + 2 * rank)]
    seen = torch.zeros(2)
    with Join([model, counter]):
        for x in batches:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
            loss.backward()
            optimizer.step()
            counter(len(x))
            seen += torch.tensor([loss.item(), 1.0])
    dist.all_reduce(seen)
    print(f"{counter.n:.0f} samples, loss {(seen[0] / seen[1]).item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
