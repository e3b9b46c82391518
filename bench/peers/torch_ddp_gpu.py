#!/usr/bin/env python3
"""The networks of bench/gpu_step_bench.cc on PyTorch DistributedDataParallel over NCCL.

Usage: torch_ddp_gpu.py [mlp|cnn|gpt] [STEPS]

Prints one JSON line: the median and the fastest step in seconds, all of the device's work included, in
f32 without TF32, and a hash of the parameters it ends with; with REPEATABLE=1 in the environment the same
bits in every run, more slowly. Ranks of several processes meet as torchrun says, or in the file that MEETING
names. Ends with 3, and one sentence, without a GPU or a PyTorch that can use it.
"""
import hashlib
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


def mlp(torch):
    nn, modules = torch.nn, []
    for _ in range(4):
        modules += [nn.Linear(2048, 2048), nn.ReLU()]
    return nn.Sequential(*modules, nn.Linear(2048, CLASSES)), torch.full((512, 2048), 0.25), 512


def cnn(torch):
    nn, modules, width = torch.nn, [], 3
    for out in (64, 64, 128, 128):
        modules += [nn.Conv2d(width, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU()]
        if width == out == 64:
            modules.append(nn.MaxPool2d(2))
        width = out
    modules += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES)]
    return nn.Sequential(*modules), torch.full((128, 3, 32, 32), 0.25), 128


def gpt(torch):
    return gpt_class(torch)(), torch.full((16, 128), 7), 16 * 128


MODELS = {"mlp": mlp, "cnn": cnn, "gpt": gpt}


def gpt_class(torch, width=256, heads=8, layers=4, context=128, vocab=512):
    """Lockstep's Gpt of those sizes: attention with explicit weights is PyTorch's business here."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"),
                                     nn.Linear(4 * width, width))

        def forward(self, x):
            b, t, c = x.shape
            parts = self.c_attn(self.ln_1(x)).split(c, dim=2)
            q, k, v = (part.view(b, t, heads, -1).transpose(1, 2) for part in parts)
            seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.c_proj(seen.transpose(1, 2).reshape(b, t, c))
            return x + self.mlp(self.ln_2(x))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(context, width)
            self.h = nn.Sequential(*[Block() for _ in range(layers)])
            self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)
            self.lm_head.weight = self.wte.weight

        def forward(self, tokens):
            x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
            return self.lm_head(self.ln_f(self.h(x))).flatten(0, 1)

    return Gpt


def train(torch, make, steps):
    torch.manual_seed(1)
    model, x, rows = make(torch)
    model = torch.nn.parallel.DistributedDataParallel(model.cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()
    x, labels = x.cuda(), torch.full((rows,), 3, device="cuda")
    seconds = []
    for step in range(WARM_UP + steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss_of(model(x), labels).backward()
        optimizer.step()
        torch.cuda.synchronize()
        if step >= WARM_UP:
            seconds.append(time.perf_counter() - begin)
    return seconds, hash_of(model)


def hash_of(model):
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def play(torch, world, make, steps):
    """Seconds of each step, and the hash of the parameters."""
    with tempfile.TemporaryDirectory() as folder:
        alone = world == 1 and "MASTER_ADDR" not in os.environ
        meeting = os.environ.get("MEETING", f"{folder}/meet" if alone else "")
        where = {"init_method": f"file://{meeting}", "world_size": world} if meeting else {}
        if meeting:
            where["rank"] = int(os.environ.get("RANK", "0"))
        torch.distributed.init_process_group("nccl", **where)
        played = train(torch, make, steps)
        torch.distributed.destroy_process_group()
    return played


def main():
    name, steps = [*sys.argv[1:], *["mlp", "50"][len(sys.argv) - 1:]]
    if name not in MODELS:
        sys.exit(f"torch_ddp_gpu.py: '{name}' is not one of {', '.join(MODELS)}")
    try:
        import torch
    except ImportError as error:
        explain(f"no PyTorch: {error}")
    if not torch.cuda.is_available():
        explain("this PyTorch sees no CUDA device")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = os.environ.get("REPEATABLE") == "1"
    rank = int(os.environ.get("RANK", "0"))
    world = int(os.environ.get("WORLD_SIZE", "1"))
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    seconds, digest = play(torch, world, MODELS[name], int(steps))
    if rank == 0:
        print(json.dumps({
            "seconds_per_step": statistics.median(seconds),
            "fastest": min(seconds),
            "steps": len(seconds),
            "ranks": world,
            "model": name,
            "parameters": digest,
            "device": torch.cuda.get_device_name(),
            "torch": torch.__version__,
        }))


if __name__ == "__main__":
    main()
