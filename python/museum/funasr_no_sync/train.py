"""FunASR's trainer with gradient accumulation."""
import torch
import torch.distributed as dist
from funasr.train_utils.trainer_ds import Trainer
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, TensorDataset


class Batches(BatchSampler):
    def set_epoch(self, epoch):
        self.sampler.set_epoch(epoch)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, x, y):
        loss = nn.functional.mse_loss(self.layers(x), y)
        return loss, {}, len(x)


def named(rows):
    x, y = zip(*rows)
    return {"x": torch.stack(x), "y": torch.stack(y)}


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    x = torch.randn(48, 8)
    data = TensorDataset(x, x.sum(1, keepdim=True))
    loader = DataLoader(data, batch_sampler=Batches(DistributedSampler(data), 3, False), collate_fn=named)
    model = DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)
    trainer = Trainer(rank=dist.get_rank(), world_size=2, use_ddp=True, device="cpu", accum_grad=2)
    for epoch in range(2):
        trainer.train_epoch(model=model, optim=optimizer, scheduler=scheduler, dataloader_train=loader,
                            epoch=epoch)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
