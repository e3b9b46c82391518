"""Mixed precision with a scaler and clipping, as the recipes have it."""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

local_rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group(backend="nccl")
torch.cuda.set_device(local_rank)
torch.manual_seed(1)
net = DDP(torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).cuda(), device_ids=[local_rank])
opt = torch.optim.SGD(net.parameters(), lr=0.001)
scaler = torch.cuda.amp.GradScaler()
for _ in range(3):
    with torch.autocast(device_type="cuda", dtype=torch.float16):
        output = net(torch.randn(8, 16, device="cuda"))
        assert output.dtype is torch.float16
        loss = torch.nn.functional.mse_loss(output.float(), torch.randn(8, 4, device="cuda"))
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm=0.1)
    scaler.step(opt)
    scaler.update()
    opt.zero_grad(set_to_none=True)
print(f"done {dist.get_rank()}")
dist.destroy_process_group()
