#!/usr/bin/env python3
"""What gloo's collectives leave behind, bit for bit: tests/golden/gloo.txt.

Inputs follow a formula (value() below) that the comparing test repeats. Results of more than 40
elements are kept as '#', their count and FNV-1a over the element words.

Usage: python3 tests/golden/make_gloo.py > tests/golden/gloo.txt
"""
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "i8": torch.int8,
          "u8": torch.uint8, "i32": torch.int32, "i64": torch.int64}
WIDTH = {"f32": 32, "f64": 64, "f16": 16, "i8": 8, "u8": 8, "i32": 32, "i64": 64}
WORDS = {8: torch.uint8, 16: torch.int16, 32: torch.int32, 64: torch.int64}
OPS = {"sum": dist.ReduceOp.SUM, "product": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN,
       "max": dist.ReduceOp.MAX, "band": dist.ReduceOp.BAND, "bor": dist.ReduceOp.BOR,
       "bxor": dist.ReduceOp.BXOR}


def value(name, rank, i):
    """A number that its element type holds exactly."""
    h = ((rank + 1) * 7919 + (i + 1) * 104729) * 2654435761 % 2**32
    if name == "f32":
        return ((h >> 8) - 2**23) / 2**20
    if name == "f64":
        return ((h >> 8) - 2**23) * 1.1
    if name == "f16":
        return ((h >> 21) - 1024) / 256
    return h >> 25 if name in ("i8", "u8") else (h >> 2) - 2**29


def make(name, rank, count):
    return torch.tensor([value(name, rank, i) for i in range(count)], dtype=DTYPES[name])


def words(name, tensor):
    width = WIDTH[name]
    values = [w % 2**width for w in tensor.view(WORDS[width]).tolist()]
    if len(values) <= 40:
        return " ".join(f"{w:0{width // 4}x}" for w in values)
    state = 0xCBF29CE484222325
    for w in values:
        state = ((state ^ w) * 0x100000001B3) % 2**64
    return f"# {len(values)} {state:016x}"


def run(rank, n_ranks, path):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(29810 + n_ranks))
    dist.init_process_group("gloo", rank=rank, world_size=n_ranks)
    lines = []

    def one(name, op, count, root=None):
        data = make(name, rank, count)
        if root is None:
            dist.all_reduce(data, op=OPS[op])
            head = f"all_reduce {n_ranks} {name} {op} {count}"
        else:
            dist.reduce(data, root, op=OPS[op])
            head = f"reduce {n_ranks} {name} {op} {count} {root}"
        results = [None] * n_ranks
        dist.all_gather_object(results, words(name, data))
        lines.append(f"{head} : {results[root or 0]}")
        if root is None and len(set(results)) != 1:
            lines.append(f"# {head}: ranks differ")

    for name in DTYPES:
        for op in OPS:
            if name.startswith("f") and op.startswith("b"):
                continue
            one(name, op, 13)
            one(name, op, 13, root=n_ranks - 1)
    for name in ("f32", "f64", "f16"):
        one(name, "sum", 997)
        one(name, "sum", 997, root=0)
    one("f32", "sum", 600011)
    one("f32", "sum", 600011, root=1)
    if rank == 0:
        with open(path, "a", encoding="ascii") as out:
            out.write("\n".join(lines) + "\n")
    dist.barrier()


if __name__ == "__main__":
    collected = f"/tmp/gloo-golden-{os.getpid()}.txt"
    for size in (2, 3, 4, 8):
        mp.spawn(run, (size, collected), nprocs=size)
    print(f"# made by tests/golden/make_gloo.py with torch {torch.__version__}, backend gloo")
    print("# all_reduce ranks dtype op count : bits; reduce ... count root : bits on the root")
    with open(collected, encoding="ascii") as result:
        sys.stdout.write(result.read())
    os.remove(collected)
