#!/usr/bin/env python3
"""DistributedDataParallel's own mixed precision on gloo: mixed_precision_torch2.txt (torch 2.x).

The feature asks for an accelerator's streams; here they are objects that do nothing, so everything
happens in program order. Of step 0 only the forward is written down: before the rebuild PyTorch
reduces memory that no gradient was copied into.
"""

import os
import pathlib
import socket
import struct
import tempfile

import torch
import torch.distributed as dist

from golden_format import write


class Inert:
    """A stream or an event."""

    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def wait_stream(self, other):
        pass

    def wait(self, stream=None):
        pass

    def record(self):
        pass


torch.Stream = Inert
torch.Event = Inert
torch.accelerator.current_stream = lambda *args: Inert()

from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.nn.parallel.distributed import _MixedPrecision  # noqa: E402

HERE = pathlib.Path(__file__).parent
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "-": None}
N_STEPS = 5
CASES = [(param, reduce, buffer, n_ranks, zero)
         for param, reduce, buffer in [("f16", "f16", "f16"), ("bf16", "f32", "bf16"),
                                       ("f16", "-", "-"), ("f16", "f32", "f32"),
                                       ("bf16", "bf16", "-")]
         for n_ranks in (2, 3) for zero in ("none", "keep")]


def number(rank, step, index):
    """A float with more bits than 16-bit floats keep."""
    return ((rank * 37 + step * 23 + index * 11) % 41 - 20) / 8 + (index + 1) / 1024


def bits(tensor):
    values = tensor.detach().float().reshape(-1).tolist()
    return " ".join(struct.pack(">f", v).hex() for v in values)


class Model(torch.nn.Module):
    def __init__(self, rank):
        super().__init__()
        self.a = torch.nn.Parameter(torch.tensor([number(rank, 90, i) for i in range(5)]))
        self.b = torch.nn.Parameter(torch.tensor([number(rank, 91, i) for i in range(3)]))
        self.frozen = torch.nn.Parameter(torch.tensor([1.0009765625]), requires_grad=False)
        self.register_buffer("seen", torch.tensor([number(rank, 92, 0)]))
        self.register_buffer("count", torch.tensor([3]))

    def forward(self, x):
        self.lent = bits(self.a) + "," + bits(self.frozen)
        wide = x.float()
        factor = self.frozen.float() * self.seen.float() / 16
        return (self.a.float() * wide[:5]).sum() + (self.b.float() * wide[5:] * factor).sum()


def run(rank, case, lines):
    param, reduce, buffer, n_ranks, zero = case
    name = " ".join(str(part) for part in case)
    model = Model(rank)
    mixed = _MixedPrecision(DTYPES[param], DTYPES[reduce], DTYPES[buffer])
    ddp = DistributedDataParallel(model, mixed_precision=mixed)
    lines.append(f"buffers {name} {rank} : {model.seen.dtype} {model.count.dtype} "
                 f"{bits(model.seen)}")
    for step in range(N_STEPS):
        if zero == "none" or step < 2:
            model.zero_grad(set_to_none=True)
        loss = ddp(torch.tensor([number(rank, step, i) for i in range(8)]))
        lines.append(f"lent {name} {rank} {step} : {model.lent}")
        loss.backward()
        if step == 0:
            continue
        assert model.a.grad.dtype == model.a.dtype == torch.float32
        lines.append(f"grad {name} {rank} {step} : {bits(model.a.grad)},{bits(model.b.grad)}")
        with torch.no_grad():
            for p in (model.a, model.b):
                p.copy_(p - p.grad * 0.125)
        lines.append(f"param {name} {rank} {step} : {bits(model.a)},{bits(model.b)}")


def worker(rank, case, port, path):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=case[3])
    lines = []
    run(rank, case, lines)
    pathlib.Path(path).write_text("\n".join(lines), encoding="ascii")
    dist.barrier()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            port = free_port()
            children = []
            for rank in range(case[3]):
                child = os.fork()
                if child == 0:
                    worker(rank, case, port, f"{folder}/{rank}")
                    os._exit(0)
                children.append(child)
            for child in children:
                os.waitpid(child, 0)
            for rank in range(case[3]):
                lines += pathlib.Path(f"{folder}/{rank}").read_text(encoding="ascii").split("\n")
    write(HERE / "mixed_precision_torch2.txt", "make_mixed_precision.py",
          "kind param reduce buffer ranks zero rank step : values as f32", lines)


if __name__ == "__main__":
    main()
