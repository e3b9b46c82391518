#!/usr/bin/env python3
"""What PyTorch's join context does on gloo: gradients, state, calls and errors, into join.txt.

Every case is a loop over a small model whose gradients are numbers of a formula (coefficient()
below), which the comparing test repeats. Run: python3 tests/golden/make_join.py
"""

import os
import pathlib
import struct
import sys
import time
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

from golden_format import write

SIZES = [3, 2, 1]  # Parameters a, b and c.
LR = 0.25
ATTEMPTS = 8

# lengths by rank of each round ("+": under the context, "-": outside of it), then options.
# unused: none, "alternate" (b on ranks where rank + iteration is even), "once" (b is used by rank 0
# in its first iteration alone). keep: gradients are not zeroed. sync_every k: others under no_sync.
CASES = [
    ("plain", ["+1,3"], {}),
    ("divide_active", ["+1,3"], {"divide": 0}),
    ("three_ranks", ["+1,2,4"], {}),
    ("three_ranks_active", ["+1,2,4"], {"divide": 0}),
    ("four_ranks", ["+4,1,3,1"], {}),
    ("four_ranks_active", ["+4,1,3,1"], {"divide": 0}),
    ("rank_zero_has_none", ["+0,3"], {}),
    ("all_empty", ["+0,0"], {}),
    ("even", ["+2,2"], {}),
    ("tie", ["+3,3,1"], {}),
    ("buffers", ["+1,3"], {"buffers": 1}),
    ("buffers_four", ["+1,2,4,4"], {"buffers": 1}),
    ("buffers_not_broadcast", ["+1,3"], {"buffers": 1, "broadcast": 0}),
    ("no_sync", ["+2,6"], {"sync_every": 2, "keep": 1, "buffers": 1}),
    ("unused", ["+1,3"], {"find_unused": 1, "unused": "alternate"}),
    ("unused_three", ["+2,1,4"], {"find_unused": 1, "unused": "alternate"}),
    ("stale_used_map", ["+1,5"], {"find_unused": 1, "unused": "once", "keep": 1}),
    ("stale_used_map_three", ["+1,2,5"], {"find_unused": 1, "unused": "once", "keep": 1}),
    ("view", ["+1,3"], {"view": 1}),
    ("view_active_three", ["+1,2,4"], {"view": 1, "divide": 0}),
    ("small_buckets", ["+1,4"], {"small": 1, "buffers": 1}),
    ("small_buckets_rank_zero_has_none", ["+0,4,2"], {"small": 1}),
    ("throw", ["+1,3"], {"throw": 1}),
    ("throw_three", ["+2,3,3"], {"throw": 1}),
    ("throw_even", ["+2,2"], {"throw": 1}),
    ("disabled", ["+2,2"], {"enable": 0, "buffers": 1}),
    ("sticky", ["+1,2", "-2,2"], {"buffers": 1}),
    ("two_contexts", ["+1,3", "+3,1"], {"divide": 0}),
]


def coefficient(rank, step, parameter, element):
    return float((rank * 7 + step * 5 + parameter * 3 + element * 2) % 9 - 4)


def words(tensor):
    return " ".join(struct.pack(">f", v).hex() for v in tensor.reshape(-1).tolist())


class Model(torch.nn.Module):
    def __init__(self, has_buffers):
        super().__init__()
        for index, (name, size) in enumerate(zip("abc", SIZES)):
            values = [float(index + 1)] * size
            self.register_parameter(name, torch.nn.Parameter(torch.tensor(values)))
        if has_buffers:
            self.register_buffer("seen", torch.zeros(2))

    def forward(self, rank, step, use_b):
        if hasattr(self, "seen"):
            self.seen += torch.tensor([1.0, float(rank + 1)])
        total = None
        for index, p in enumerate((self.a, self.b, self.c)):
            if index == 1 and not use_b:
                continue
            factors = [coefficient(rank, step, index, e) for e in range(SIZES[index])]
            term = (p * torch.tensor(factors)).sum()
            total = term if total is None else total + term
        return total


def uses_b(rule, rank, step):
    if rule == "alternate":
        return (rank + step) % 2 == 1
    if rule == "once":
        return rank == 0 and step == 0
    return True


class Loop:
    def __init__(self, rank, options):
        self.rank = rank
        self.options = options
        get = options.get
        self.model = Model(get("buffers", 0))
        small = {"bucket_cap_mb": 1 / 2**20} if get("small") else {}
        first = dist._DEFAULT_FIRST_BUCKET_BYTES
        if small:
            dist._DEFAULT_FIRST_BUCKET_BYTES = 1
        self.ddp = DistributedDataParallel(
            self.model,
            find_unused_parameters=bool(get("find_unused", 0)),
            gradient_as_bucket_view=bool(get("view", 0)),
            broadcast_buffers=bool(get("broadcast", 1)),
            **small)
        dist._DEFAULT_FIRST_BUCKET_BYTES = first
        self.lines = []

    def step(self, round_index, step):
        use_b = uses_b(self.options.get("unused"), self.rank, step)
        every = self.options.get("sync_every", 1)
        if not self.options.get("keep", 0):
            self.model.zero_grad(set_to_none=True)
        if (step + 1) % every:
            with self.ddp.no_sync():
                self.ddp(self.rank, step, use_b).backward()
        else:
            self.ddp(self.rank, step, use_b).backward()
        grads = [p.grad for p in self.model.parameters()]
        text = " | ".join("none" if g is None else words(g) for g in grads)
        self.lines.append(f"grads {{case}} {round_index} {self.rank} {step} : {text}")
        with torch.no_grad():
            for p in self.model.parameters():
                if p.grad is not None:
                    p -= LR * p.grad

    def round(self, index, text):
        length = int(text[1:].split(",")[self.rank])
        error = ""

        def body():
            for step in range(length):
                self.step(index, step)

        try:
            if text[0] == "+":
                with self.ddp.join(
                        divide_by_initial_world_size=bool(self.options.get("divide", 1)),
                        enable=bool(self.options.get("enable", 1)),
                        throw_on_early_termination=bool(self.options.get("throw", 0))):
                    body()
            else:
                body()
        except (RuntimeError, ValueError) as e:
            error = str(e)
        state = list(self.model.parameters()) + list(self.model.buffers())
        text = " | ".join(words(t.detach()) for t in state)
        self.lines.append(f"state {{case}} {index} {self.rank} : {text}")
        self.lines.append(f"error {{case}} {index} {self.rank} : {error}")
        if self.options.get("find_unused"):
            counts = " ".join(str(int(n)) for n in self.ddp.reducer._get_local_used_map())
            self.lines.append(f"used {{case}} {index} {self.rank} : {counts}")


def calls(profile):
    """'AR3 B1 ...': gloo's operations in the order in which they were posted."""
    names = {"gloo:all_reduce": "AR", "gloo:broadcast": "B", "gloo:all_gather": "AG"}
    events = [e for e in profile.function_events if e.name in names]
    events.sort(key=lambda e: e.time_range.start)
    out = []
    for event in events:
        n = 1
        for size in event.input_shapes[0]:
            n *= size
        out.append(f"{names[event.name]}{n}")
    return " ".join(out)


def run(rank, n_ranks, path):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(29710 + n_ranks))
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", rank=rank, world_size=n_ranks)
    lines = []
    for name, rounds, options in CASES:
        if rounds[0].count(",") + 1 != n_ranks:
            continue
        # The profiler loses an event now and then; the longest of several lists is complete.
        longest = ""
        for _ in range(ATTEMPTS):
            loop = Loop(rank, options)
            with torch.autograd.profiler.profile(record_shapes=True) as profile:
                for index, text in enumerate(rounds):
                    loop.round(index, text)
                time.sleep(0.02)
            longest = max(longest, calls(profile), key=len)
            own = [line.replace("{case}", name) for line in loop.lines]
            del loop
            dist.barrier()
        lengths = [None] * n_ranks
        dist.all_gather_object(lengths, longest)
        assert len(set(lengths)) == 1, (name, lengths)
        lines += own
        lines.append(f"calls {name} {rank} : {longest}")
    gathered = [None] * n_ranks
    dist.all_gather_object(gathered, lines)
    if rank == 0:
        path.write_text("\n".join(line for part in gathered for line in part))
    dist.barrier()


def main():
    here = pathlib.Path(__file__).parent
    lines = []
    for name, rounds, options in CASES:
        text = " ".join(f"{key}={value}" for key, value in options.items())
        lines.append(f"case {name} {' '.join(rounds)} : {text}")
    for n_ranks in (2, 3, 4):
        path = here / f"join.{n_ranks}.part"
        mp.spawn(run, args=(n_ranks, path), nprocs=n_ranks)
        lines += path.read_text().split("\n")
        path.unlink()
    write(here / "join.txt", "make_join.py", "kind case round rank [step] : values", lines)


if __name__ == "__main__":
    sys.exit(main())
