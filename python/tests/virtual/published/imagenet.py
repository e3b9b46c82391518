"""In the style of the ImageNet example: argparse, meters that are reduced, a schedule of the learning rate, the best model kept."""
import argparse
import os
from enum import Enum

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Subset, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("data")
parser.add_argument("--epochs", default=2, type=int)
parser.add_argument("-b", "--batch-size", default=16, type=int)
parser.add_argument("--lr", default=0.1, type=float)
parser.add_argument("-j", "--workers", default=2, type=int)


class Summary(Enum):
    NONE = 0
    AVERAGE = 1


class AverageMeter:
    def __init__(self):
        self.sum, self.count, self.avg = 0.0, 0, 0.0

    def update(self, val, n=1):
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def all_reduce(self):
        total = torch.tensor([self.sum, self.count], dtype=torch.float32, device="cuda")
        dist.all_reduce(total, dist.ReduceOp.SUM, async_op=False)
        self.sum, self.count = total.tolist()
        self.avg = self.sum / self.count


def accuracy(output, target):
    with torch.no_grad():
        return output.argmax(1).eq(target).float().mean() * 100


def validate(loader, model, args):
    top1 = AverageMeter()
    model.eval()
    with torch.no_grad():
        for images, target in loader:
            images, target = images.cuda(args.gpu, non_blocking=True), target.cuda(args.gpu, non_blocking=True)
            top1.update(accuracy(model(images), target).item(), images.size(0))
    top1.all_reduce()
    size = len(loader.sampler) * args.world_size
    if size < len(loader.dataset):
        rest = DataLoader(Subset(loader.dataset, range(size, len(loader.dataset))), batch_size=args.batch_size)
        for images, target in rest:
            top1.update(accuracy(model(images.cuda(args.gpu)), target.cuda(args.gpu)).item(), images.size(0))
    assert top1.count == len(loader.dataset)
    return top1.avg


def main():
    args = parser.parse_args()
    args.gpu = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl", init_method="env://")
    args.world_size = dist.get_world_size()
    torch.cuda.set_device(args.gpu)
    torch.manual_seed(7)
    torch.backends.cudnn.benchmark = True
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10))
    model.cuda(args.gpu)
    args.batch_size //= args.world_size
    model = nn.parallel.DistributedDataParallel(model, device_ids=[args.gpu])
    criterion = nn.CrossEntropyLoss().to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    scheduler = StepLR(optimizer, step_size=30, gamma=0.1)
    train = TensorDataset(torch.randn(48, 3, 8, 8), torch.randint(0, 10, (48,)))
    val = TensorDataset(torch.randn(33, 3, 8, 8), torch.randint(0, 10, (33,)))
    sampler = torch.utils.data.distributed.DistributedSampler(train)
    loader = DataLoader(train, args.batch_size, shuffle=False, num_workers=args.workers, pin_memory=True, sampler=sampler)
    val_loader = DataLoader(val, args.batch_size, sampler=torch.utils.data.distributed.DistributedSampler(
        val, shuffle=False, drop_last=True))
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        model.train()
        losses = AverageMeter()
        for images, target in loader:
            images, target = images.cuda(args.gpu, non_blocking=True), target.cuda(args.gpu, non_blocking=True)
            loss = criterion(model(images), target)
            losses.update(loss.item(), images.size(0))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        acc1 = validate(val_loader, model, args)
        scheduler.step()
        if dist.get_rank() == 0:
            torch.save({"epoch": epoch + 1, "state_dict": model.state_dict(), "best_acc1": acc1,
                        "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}, f"{args.data}/checkpoint.pth.tar")
    print(f"done {dist.get_rank()}")


if __name__ == "__main__":
    main()
