#!/usr/bin/env python3
"""The network of bench/gpu_step_bench.cc on PyTorch DistributedDataParallel over NCCL.

Usage: torch_ddp_gpu.py [WIDTH LAYERS BATCH STEPS]

Prints one JSON line: the median and the fastest step in seconds, all of the device's work included, in
f32 without TF32. Ends with 3, and one sentence, without a GPU or a PyTorch that can use it.
"""
import json
import os
import statistics
import sys
import tempfile
import time

CLASSES = 10
WARM_UP = 10


def explain(reason):
    print(f"torch_ddp_gpu.py: {reason}", file=sys.stderr)
    sys.exit(3)


def train(torch, width, layers, batch, steps):
    torch.manual_seed(1)
    modules = []
    for _ in range(layers):
        modules += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    modules.append(torch.nn.Linear(width, CLASSES))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*modules).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()
    x = torch.full((batch, width), 0.25, device="cuda")
    labels = torch.full((batch,), 3, device="cuda")
    seconds = []
    for step in range(WARM_UP + steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss_of(model(x), labels).backward()
        optimizer.step()
        torch.cuda.synchronize()
        if step >= WARM_UP:
            seconds.append(time.perf_counter() - begin)
    return seconds


def main():
    given = [int(word) for word in sys.argv[1:]]
    width, layers, batch, steps = given + [2048, 4, 512, 50][len(given):]
    try:
        import torch
    except ImportError as error:
        explain(f"no PyTorch: {error}")
    if not torch.cuda.is_available():
        explain("this PyTorch sees no CUDA device")
    torch.backends.cuda.matmul.allow_tf32 = False
    rank = int(os.environ.get("RANK", "0"))
    world = int(os.environ.get("WORLD_SIZE", "1"))
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    if world == 1 and "MASTER_ADDR" not in os.environ:
        with tempfile.TemporaryDirectory() as folder:
            torch.distributed.init_process_group(
                "nccl", init_method=f"file://{folder}/meet", rank=0, world_size=1)
            seconds = train(torch, width, layers, batch, steps)
            torch.distributed.destroy_process_group()
    else:
        torch.distributed.init_process_group("nccl")
        seconds = train(torch, width, layers, batch, steps)
        torch.distributed.destroy_process_group()
    if rank == 0:
        print(json.dumps({
            "seconds_per_step": statistics.median(seconds),
            "fastest": min(seconds),
            "steps": len(seconds),
            "ranks": world,
            "width": width,
            "layers": layers,
            "batch": batch,
            "device": torch.cuda.get_device_name(),
            "torch": torch.__version__,
        }))


if __name__ == "__main__":
    main()
