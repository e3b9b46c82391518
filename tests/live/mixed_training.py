"""Training under autocast with a gradient scaler: DDP in the simulator against PyTorch's on gloo.

Each job is 100 steps on two or three ranks: an MLP with batch norm, a CNN, a small GPT, and `exact`, two layers
that are each used twice, on a grid on which no f32 sum rounds. Losses of some ranks overflow in some steps. Equal in
every step on every rank: the scale, whether an infinity was found, whether the optimizer stepped; so are the buckets
after they were rebuilt. `exact` jobs end with the same bits. The others' losses differ where a library orders its own
sums; how far they lie apart is printed. Then each planted mistake must be noticed by the same comparison.

The jobs of the MLP, the CNN and the GPT are fixed: after one 16-bit rounding that falls on the other side, their
losses drift apart, and a gradient may overflow in one library that is just finite in the other. Scales would differ then,
and no test can exclude that for every seed (seed 1 of the second job is such a one, at step 79).
"""

import argparse
import math
import os
import random
import struct
import sys

os.environ["ATEN_CPU_CAPABILITY"] = "avx2"  # Read as PyTorch is imported.

import live
import torch_jobs
from live import torch

import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
import gpt_reference as reference  # noqa: E402

MISTAKES = ("no-cache", "other-dtype", "overflows-late", "backs-off-twice")
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
ROWS, FEATURES, OUTPUTS = 4, 6, 2
GPT = dict(vocab=11, context=8, layers=2, heads=2, width=16, tied=True, dropout=0.0)
FIXED = [f"model={model} dtype={dtype} world={world} steps=100 seed={seed} init={init} interval=7 "
         f"overflow={overflow}"
         for model, dtype, world, seed, init, overflow in [
             ("mlp", "f16", 2, 0, 65536, "20:0,21:1,50:1"), ("mlp", "f16", 3, 10, 1048576, "33:2"),
             ("mlp", "bf16", 2, 2, 65536, "9:0,60:1"), ("mlp", "bf16", 3, 3, 1024, "70:1,71:1,72:2"),
             ("cnn", "f16", 2, 4, 1048576, "40:0"), ("cnn", "bf16", 3, 5, 1024, "40:1,90:0"),
             ("gpt", "f16", 2, 6, 65536, "11:1,80:0"), ("gpt", "f16", 3, 7, 1048576, "55:2"),
             ("gpt", "bf16", 2, 8, 65536, "30:0,31:0"), ("gpt", "bf16", 3, 9, 256, "64:1")]]


class Attention(reference.Attention):
    """PyTorch's own attention, in the backend that computes in f32 throughout."""

    def forward(self, x):
        b, t, c = x.shape
        heads = [y.view(b, t, self.o["heads"], -1).transpose(1, 2)
                 for y in self.c_attn(x).split(c, dim=2)]
        with sdpa_kernel(SDPBackend.MATH):
            y = F.scaled_dot_product_attention(*heads, is_causal=True)
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).reshape(b, t, c)))


class TwiceUsed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(FEATURES, 8), nn.Linear(8, OUTPUTS)

    def forward(self, x):
        once = self.second(torch.relu(self.first(x)))
        return once + self.second(torch.relu(self.first(x * 2.0)))


def draw_job(rng):
    """A job of which every bit is compared."""
    world, steps = rng.choice([2, 3]), 100
    places = [f"{rng.randrange(steps)}:{rng.randrange(world)}" for _ in range(rng.randrange(4))]
    return (f"model=exact dtype={rng.choice(list(DTYPES))} world={world} steps={steps} "
            f"seed={rng.randrange(10**6)} init={2**rng.randrange(21)} interval={rng.randint(1, 9)} "
            f"overflow={','.join(places) or 'none'}")


def parse(line):
    job = dict(word.split("=", 1) for word in line.split())
    for key in ("world", "steps", "seed", "init", "interval"):
        job[key] = int(job[key])
    job["overflow"] = job["overflow"].split(",")
    return job


def drawn(job, purpose, words, n):
    return float(torch_jobs.draw(job["seed"], purpose, words) % (2 * n + 1)) - n


def make_model(job):
    if job["model"] == "exact":
        model = TwiceUsed()
        with torch.no_grad():
            for p, parameter in enumerate(model.parameters()):
                values = [drawn(job, "initial", (p, i), 4) / 4 for i in range(parameter.numel())]
                parameter.copy_(torch.tensor(values).view_as(parameter))
        return model
    torch.manual_seed(job["seed"])
    if job["model"] == "gpt":
        reference.Attention = Attention
        return reference.Gpt(GPT)
    if job["model"] == "cnn":
        return nn.Sequential(nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4),
                             nn.ReLU(), nn.Flatten(), nn.Linear(24, OUTPUTS))
    return nn.Sequential(nn.Linear(FEATURES, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 16),
                         nn.Tanh(), nn.Linear(16, OUTPUTS))


def to_grid(optimizer, args, kwargs):
    with torch.no_grad():
        for group in optimizer.param_groups:
            for p in group["params"]:
                for t in (p, optimizer.state[p]["momentum_buffer"]):
                    t.copy_(torch.clamp(torch.round(t * 4) / 4, -2, 2))


def word(tensor):
    return " ".join("00000000" if w == "80000000" else w for w in live.bits(tensor).split())


class Run:
    def __init__(self, job, rank, group):
        self.job, self.rank = job, rank
        self.model = make_model(job)
        default, dist._DEFAULT_FIRST_BUCKET_BYTES = dist._DEFAULT_FIRST_BUCKET_BYTES, 512
        self.ddp = DistributedDataParallel(self.model, process_group=group, bucket_cap_mb=512 / 2**20)
        dist._DEFAULT_FIRST_BUCKET_BYTES = default
        self.exact = job["model"] == "exact"
        if job["model"] == "gpt":
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.001, weight_decay=0.0)
        else:
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.125 if self.exact else 0.05,
                                             momentum=0.5)
        if self.exact:
            self.optimizer.register_step_post_hook(to_grid)
        self.n_steps = 0
        self.optimizer.register_step_post_hook(self.count)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=job["init"], growth_interval=job["interval"])
        self.losses = []

    def count(self, *_):
        self.n_steps += 1

    def all(self):
        steps = ",".join(self.one(step) for step in range(self.job["steps"]))
        log = self.ddp._get_ddp_logging_data()
        parameters = " ".join(word(p) for p in self.model.parameters())
        kind = "p" if self.exact else "~p"
        return {f"s {self.rank}": steps, f"k {self.rank}": log["rebuilt_per_bucket_param_indices"],
                f"{kind} {self.rank}": parameters, f"~l {self.rank}": " ".join(self.losses)}

    def one(self, step):
        self.optimizer.zero_grad()
        loss = self.loss(step)
        self.losses.append(live.bits(loss))
        spoilt = f"{step}:{self.rank}" in self.job["overflow"]
        self.scaler.scale(loss * math.inf if spoilt else loss).backward()
        before = self.n_steps
        self.scaler.step(self.optimizer)
        found = self.scaler._per_optimizer_states[id(self.optimizer)]["found_inf_per_device"]
        found = int(sum(v.item() for v in found.values()) > 0)
        self.scaler.update()
        return f"{live.bits(self.scaler._scale)} {found} {int(self.n_steps == before)}"

    def loss(self, step):
        with torch.autocast("cpu", dtype=DTYPES[self.job["dtype"]]):
            if self.job["model"] == "gpt":
                tokens = self.values("tokens", (ROWS, GPT["context"]), step, 5, 5).long()
                labels = self.values("labels", (ROWS * GPT["context"],), step, 5, 5).long()
                return F.cross_entropy(self.ddp(tokens).view(-1, GPT["vocab"]), labels)
            x = self.values("x", (ROWS, FEATURES), step, 1, 0)
            return F.mse_loss(self.ddp(x), self.values("target", (ROWS, OUTPUTS), step, 8, 0))

    def values(self, purpose, shape, step, n, offset):
        count = torch.Size(shape).numel()
        values = [drawn(self.job, purpose, (self.rank, step, i), n) + offset for i in range(count)]
        return torch.tensor(values).view(shape)


def answer_all(rank, n_ranks, jobs):
    torch.backends.mkldnn.set_flags(False)
    dist.init_process_group("gloo", rank=rank, world_size=n_ranks)
    groups = {n: dist.new_group(list(range(n)), backend="gloo") for n in (2, 3)}
    for job in jobs:
        yield Run(job, rank, groups[job["world"]]).all() if rank < job["world"] else {}


def promised(answer):
    return {key: text for key, text in answer.items() if not key.startswith("~")}


def numbers(text):
    return [struct.unpack(">f", bytes.fromhex(w))[0] for w in text.split()]


def apart(theirs, ours):
    """The largest difference of losses relative to the first, over ranks and steps."""
    worst = 0.0
    for key in theirs:
        if key.startswith("~l"):
            a, b = numbers(theirs[key]), numbers(ours[key])
            worst = max([worst] + [abs(x - y) / abs(a[0]) for x, y in zip(a, b)])
    return worst


def print_difference(line, theirs, ours):
    print("job     ", line)
    for key in sorted(set(theirs) | set(ours), key=lambda key: (key[0] != "x", key)):
        a, b = theirs.get(key, "(nothing)").split(","), ours.get(key, "(nothing)").split(",")
        for place, (x, y) in enumerate(zip(a, b)):
            if x != y:
                print(f"  {key} at {place}\n    torch {x[:300]}\n    here  {y[:300]}")
                return


def record(path, lines, answers):
    with open(path, "w", encoding="ascii") as out:
        out.write(f"# made by tests/live/mixed_training.py --record with torch {torch.__version__}\n"
                  "# job : kind rank=scale found_inf skipped of each step, buckets, parameters\n")
        for line, answer in zip(lines, answers):
            text = ";".join(f"{key}={value}" for key, value in sorted(promised(answer).items()))
            out.write(f"{line} : {text}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("probe")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--cases", type=int, default=20, help="exact jobs")
    parser.add_argument("--record", help="write PyTorch's answers into this file")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    rng = random.Random(seed)
    lines = FIXED + [draw_job(rng) for _ in range(options.cases)]
    expected = torch_jobs.run_in_processes([parse(line) for line in lines], 3, answer_all)
    if options.record:
        record(options.record, lines, expected)
    answers = torch_jobs.answers_of(options.probe, lines, "none")
    n_equal = 0
    for line, theirs, ours in zip(lines, expected, answers):
        equal = promised(theirs) == promised(ours)
        n_equal += equal
        if not equal:
            print_difference(line, promised(theirs), promised(ours))
        elif "exact" not in line:
            n_skipped = theirs["s 0"].split(",")
            n_skipped = sum(step.endswith("1") for step in n_skipped)
            print(f"{line[:32]}: {n_skipped} steps skipped, losses at most {apart(theirs, ours):.1e} apart")
    print(f"mixed training: {n_equal} of {len(lines)} jobs equal PyTorch {torch.__version__}; --seed {seed}")
    ok = n_equal == len(lines)
    for mistake in MISTAKES:
        wrong = torch_jobs.answers_of(options.probe, lines, mistake)
        n_noticed = sum(promised(a) != promised(b) for a, b in zip(expected, wrong))
        print(f"mixed training: {mistake} is noticed in {n_noticed} jobs")
        ok = ok and n_noticed > 0
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
