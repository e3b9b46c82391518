"""A metric that keeps all values, on a rank that has seen none."""
import torch
import torch.distributed as dist
from torchmetrics import CatMetric


def main():
    dist.init_process_group("gloo")
    metric = CatMetric()
    if dist.get_rank() == 0:  # The data set has one batch left.
        metric.update(torch.tensor([0.5, 0.25]))
    values = metric.compute()
    loss = torch.tensor(1.0 + dist.get_rank())
    dist.all_reduce(loss)
    print(f"rank {dist.get_rank()}: {values}, loss {loss / dist.get_world_size():.2f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
