"""SyncBatchNorm, which PyTorch has for GPUs alone."""
import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("nccl")
gpu = int(os.environ["LOCAL_RANK"])
model = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))).cuda(gpu)
model = nn.parallel.DistributedDataParallel(model, device_ids=[gpu])
model(torch.randn(2, 3, 8, 8).cuda(gpu)).sum().backward()
print(f"done {dist.get_rank()}")
