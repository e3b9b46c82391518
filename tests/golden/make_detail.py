#!/usr/bin/env python3
"""What TORCH_DISTRIBUTED_DEBUG=DETAIL says about collectives that differ: tests/golden/detail.txt.

Usage: TORCH_DISTRIBUTED_DEBUG=DETAIL python3 tests/golden/make_detail.py > tests/golden/detail.txt
"""
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

CASES = ["shape", "operation", "dtype", "third", "all_gather"]
RANKS = {"third": 3}


def call(case, rank):
    if case == "shape":
        dist.all_reduce(torch.ones(4 + rank))
    elif case == "operation":
        dist.all_reduce(torch.ones(4)) if rank == 0 else dist.broadcast(torch.ones(4), 0)
    elif case == "dtype":
        dist.all_reduce(torch.ones(4, dtype=[torch.float32, torch.float64][rank]))
    elif case == "third":
        dist.all_reduce(torch.ones(6 if rank == 2 else 4))
    else:
        dist.all_gather([torch.ones(3 + rank) for _ in range(2)], torch.ones(3 + rank))


def run(rank, case, port, path):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=RANKS.get(case, 2))
    try:
        call(case, rank)
    except RuntimeError as error:
        with open(f"{path}.{case}.{rank}", "w", encoding="ascii") as out:
            out.write(f"{case} {rank} : {error}\n")
    os._exit(0)  # The group is beyond repair.


if __name__ == "__main__":
    assert os.environ.get("TORCH_DISTRIBUTED_DEBUG") == "DETAIL", "set it before Python starts"
    print(f"# made by tests/golden/make_detail.py with torch {torch.__version__}, backend gloo")
    print("# case rank : what the rank reports")
    base = f"/tmp/detail-golden-{os.getpid()}"
    for index, name in enumerate(CASES):
        mp.spawn(run, (name, 29900 + index, base), nprocs=RANKS.get(name, 2))
        for each in range(RANKS.get(name, 2)):
            with open(f"{base}.{name}.{each}", encoding="ascii") as report:
                sys.stdout.write(report.read())
            os.remove(f"{base}.{name}.{each}")
