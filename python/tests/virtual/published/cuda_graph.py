"""A step captured as a CUDA graph."""
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2).cuda())
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    model(torch.randn(8, 4, device="cuda")).sum().backward()
g.replay()
print("done")
