#!/usr/bin/env python3
"""What _get_ddp_logging_data says before and while a small model trains, into ddp_logging.txt.

Times, the environment of the machine and num_buckets_reduced (PyTorch 2) are left out. With PyTorch 2:
ddp_logging_torch2.txt. Run: python3 tests/golden/make_ddp_logging.py
"""

import contextlib
import os
import pathlib
import sys
import warnings

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from golden_format import write

CAP = 4 / 1024 / 1024
# Every second iteration from the first one on leaves b out where unused parameters are searched;
# the fifth one is under no_sync.
CASES = [
    ("default", {}),
    ("find_unused", {"find_unused_parameters": True}),
    ("small_views", {"gradient_as_bucket_view": True, "broadcast_buffers": False, "bucket_cap_mb": CAP}),
    ("small_find_unused", {"find_unused_parameters": True, "bucket_cap_mb": CAP}),
    ("static", {"static_graph": True}),
]
SHOWN = [0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 99, 100, 101, 102]
LEFT_OUT = ("time", "gloo", "master", "cuda", "module_name", "num_buckets_reduced")


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Parameter(torch.ones(3))
        self.b = torch.nn.Parameter(torch.ones(2))
        self.c = torch.nn.Parameter(torch.ones(5))

    def forward(self, with_b):
        y = self.a.sum() + self.c.sum()
        return y + self.b.sum() if with_b else y


def text_of(ddp):
    data = ddp._get_ddp_logging_data()
    data["backend_name"] = "mini"
    kept = {k: v for k, v in sorted(data.items()) if not any(word in k for word in LEFT_OUT)}
    return "|".join(f"{key}={value}" for key, value in kept.items())


def lines_of(name, options):
    model = Model()
    ddp = DistributedDataParallel(model, **options)
    lines = [f"new {name} : {text_of(ddp)}"]
    for i in range(max(SHOWN) + 1):
        for parameter in model.parameters():
            parameter.grad = None
        with ddp.no_sync() if i == 4 else contextlib.nullcontext():
            out = ddp(not options.get("find_unused_parameters") or i % 2 == 1)
        out.backward()
        if i in SHOWN:
            lines.append(f"after {name} {i} : {text_of(ddp)}")
    return lines


def main():
    warnings.simplefilter("ignore")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29761", RANK="0", WORLD_SIZE="1")
    dist.init_process_group("gloo")
    lines = [line for name, options in CASES for line in lines_of(name, options)]
    is_old = torch.__version__.startswith("1.")
    file = pathlib.Path(__file__).parent / ("ddp_logging.txt" if is_old else "ddp_logging_torch2.txt")
    write(file, "make_ddp_logging.py", "kind case iteration : field=value|...", lines)


if __name__ == "__main__":
    sys.exit(main())
