"""DataParallel: one process that scatters over its GPUs."""
import torch

model = torch.nn.DataParallel(torch.nn.Linear(4, 2).cuda())
print("done", model(torch.randn(8, 4).cuda()).shape)
