"""A parameter server by RPC."""
import os

import torch.distributed.rpc as rpc

rpc.init_rpc(f"worker{os.environ['RANK']}", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
print("done")
