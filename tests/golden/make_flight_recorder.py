#!/usr/bin/env python3
"""What PyTorch's Flight Recorder dumps of a job whose rank 1 leaves the last reduction out.

Two processes on gloo, torch 2.15: flight_recorder/rank_N.json is the JSON form, rank_N.pickle the form that
PyTorch writes by itself. Folders of the machine are replaced by others of the same length.
"""

import os
import re
import sys
from pathlib import Path

os.environ["TORCH_FR_BUFFER_SIZE"] = "2000"

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json

FOLDER = Path(__file__).parent / "flight_recorder"


def without_folders(dump):
    """File names in the dump, except their last two parts, as x of the same length."""
    def hide(match):
        hidden, kept = match.group(1), match.group(2)
        return b"/" + b"x" * (len(hidden) - 1) + kept
    return re.sub(rb"(/[\w./-]+?)((?:/torch)?/[\w-]+/[\w-]+\.py)", hide, dump)


def main(rank, world, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    x = torch.ones(4)
    dist.all_reduce(x)
    dist.barrier()
    dist.broadcast(x, 0)
    dist.all_gather([torch.zeros(4) for _ in range(world)], x)
    group = dist.new_group([0, 1])
    dist.all_reduce(x, group=group)
    late = dist.all_reduce(x, async_op=True) if rank == 0 else None
    store = dist.distributed_c10d._get_default_store()
    store.set(f"posted{rank}", "yes")
    store.wait([f"posted{r}" for r in range(world)])
    (FOLDER / f"rank_{rank}.json").write_bytes(without_folders(_dump_fr_trace_json()) + b"\n")
    (FOLDER / f"rank_{rank}.pickle").write_bytes(without_folders(_dump_fr_trace()))
    store.set(f"dumped{rank}", "yes")
    store.wait([f"dumped{r}" for r in range(world)])
    if late is None:
        late = dist.all_reduce(x, async_op=True)
    late.wait()
    dist.destroy_process_group()


if __name__ == "__main__":
    if not torch.__version__.startswith("2.15"):
        sys.exit(f"made with torch 2.15, not {torch.__version__}")
    FOLDER.mkdir(exist_ok=True)
    rendezvous = FOLDER / "store"
    multiprocessing.spawn(main, (2, str(rendezvous)), 2)
    rendezvous.unlink(missing_ok=True)
