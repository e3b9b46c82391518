"""A script for GPUs, run without saying that the CPU may pretend to be one."""
import os

import torch

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
print("done")
