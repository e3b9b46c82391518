"""Communication hooks in whole backwards: DDP in the simulator against PyTorch's on gloo.

The model's parameters are multiplied by drawn numbers, which are their gradients, so that all that
rounds is the hook. Gradients after each backward and every rank's calls must be equal, bit for bit:
averaging, 16-bit hooks and wrappers, bytes, PowerSGD, post-local SGD, uneven inputs. PowerSGD takes
one or two columns: beyond, bits are those of a LAPACK. 16-bit brains need a gloo that adds them,
which PyTorch 1.13 has not. Then each planted mistake must be noticed by the same comparison.
"""

import argparse
import random
import sys

import live
import torch_jobs
from live import torch

import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import (
    debugging_hooks, default_hooks, post_localSGD_hook, quantization_hooks)
from torch.nn.parallel import DistributedDataParallel

try:
    import numpy  # noqa: F401  PowerSGD draws with it.
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
except ImportError:
    powerSGD_hook = None

torch_jobs.NAMES[torch.bfloat16] = "bf16"
IS_1 = torch.__version__.startswith("1.")
MISTAKES = ("other-seed", "forgets-errors", "other-width", "late-start", "other-channel")
KINDS = ["allreduce", "fp16", "noop", "quantize-per-tensor", "quantize-per-channel",
         "post-local-sgd"]
KINDS += [] if IS_1 else ["bf16"]
KINDS += ["powersgd"] * 3 if powerSGD_hook else []


def draw_job(rng):
    job = dict(hook=rng.choice(KINDS), wrapper="none", world=rng.choice([2, 3]), dtype="f32",
               seed=rng.randrange(10**6) * 1000, scale=0, cap=-1, join=0, rank=1, start=2, rate=4,
               feedback=1, warm=1, eps=0, hookseed=0, batch=0, subgroup=1, inside=1, channel=512)
    steps = rng.randint(2, 6)
    job["shapes"] = ",".join("x".join(str(rng.randint(1, 7)) for _ in range(rng.randint(1, 3)))
                             for _ in range(rng.randint(1, 4)))
    kind = job["hook"]
    if not kind.startswith("quantize"):
        job["dtype"] = rng.choice(["f32", "f64"])
    if kind in ("allreduce", "noop", "post-local-sgd"):
        job["wrapper"] = rng.choice(["none", "fp16"] if IS_1 else ["none", "fp16", "bf16"])
    if kind != "powersgd":
        job["cap"] = rng.choice([-1, 16, 100])
        job["scale"] = rng.choice([0, 0, 0, 14, -18, -30])
    else:
        draw_power_sgd(rng, job)
    job["channel"] = rng.choice([512, 7, 16])
    if kind == "post-local-sgd":
        job["subgroup"] = rng.choice([1, job["world"]])
        job["inside"] = rng.randrange(2)
        job["start"] = rng.randrange(4)
    lengths = [steps] * job["world"]
    if kind in ("allreduce", "fp16") and rng.randrange(3) == 0:
        job["join"] = 1
        lengths = [rng.randint(0, 4) for _ in lengths]
    job["steps"] = ",".join(str(n) for n in lengths)
    return " ".join(f"{key}={value}" for key, value in job.items())


def draw_power_sgd(rng, job):
    shapes = [(rng.randint(2, 9), rng.randint(2, 9)) for _ in range(rng.randint(1, 3))]
    shapes += [(rng.randint(2, 4), 3, 2)] * rng.randrange(2) + [(rng.randint(1, 9),)]
    rng.shuffle(shapes)
    job["shapes"] = ",".join("x".join(str(n) for n in shape) for shape in shapes)
    job.update(rank=rng.choice([1, 2]), rate=rng.choice([2, 4, 8]), hookseed=rng.randrange(1000),
               batch=rng.randrange(2), eps=rng.randrange(2))
    if rng.randrange(3) == 0:
        job.update(feedback=0, warm=0, start=rng.randrange(3))


def parse(line):
    job = dict(word.split("=", 1) for word in line.split())
    for key in job:
        if key not in ("hook", "wrapper", "dtype", "shapes", "steps"):
            job[key] = int(job[key])
    job["shapes"] = [[int(n) for n in shape.split("x")] for shape in job["shapes"].split(",")]
    job["steps"] = [int(n) for n in job["steps"].split(",")]
    return job


def gather_everything(parts, tensor, group=None, async_op=False):
    """The quantization hooks expect NCCL's form of an all-gather's result."""
    gather_everything.real(parts, tensor, group=group)
    future = torch.futures.Future()
    future.set_result([torch.stack(parts)])
    return type("Done", (), {"get_future": lambda self: future})()


def register(ddp, job, group, subgroups):
    """Registers PyTorch's own hook."""
    kind = job["hook"]
    plain = {"allreduce": default_hooks.allreduce_hook, "fp16": default_hooks.fp16_compress_hook,
             "noop": debugging_hooks.noop_hook,
             "quantize-per-tensor": quantization_hooks.quantization_pertensor_hook}
    state = group
    if kind == "bf16":  # The registration refuses it without NCCL; the hook itself runs.
        bare = default_hooks.bf16_compress_hook
        hook = lambda state, bucket: bare(state, bucket)
    elif kind == "quantize-per-channel":
        hook = lambda state, bucket: quantization_hooks.quantization_perchannel_hook(
            state, bucket, job["channel"])
    elif kind == "post-local-sgd":
        hook = post_localSGD_hook.post_localSGD_hook
        state = post_localSGD_hook.PostLocalSGDState(
            group, subgroups[job["subgroup"]], job["start"], bool(job["inside"]))
    elif kind == "powersgd":
        hook = powerSGD_hook.powerSGD_hook
        state = powerSGD_hook.PowerSGDState(
            group, job["rank"], job["start"], job["rate"] / 4, bool(job["feedback"]),
            bool(job["warm"]), 2.0**-10 if job["eps"] else 0, job["hookseed"],
            batch_tensors_with_same_shape=bool(job["batch"]))
    else:
        hook = plain[kind]
    wrappers = {"fp16": default_hooks.fp16_compress_wrapper,
                "bf16": default_hooks.bf16_compress_wrapper}
    if job["wrapper"] != "none":
        wrapped = wrappers[job["wrapper"]](hook)
        hook = lambda state, bucket: wrapped(state, bucket)
    ddp.register_comm_hook(state, hook)


def words(tensor):
    return " ".join("nan" if "nan" in str(v) else w for v, w in
                    zip(tensor.reshape(-1).tolist(), torch_jobs.words(tensor).split()))


class Model(torch.nn.Module):
    def __init__(self, shapes, dtype):
        super().__init__()
        self.ps = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(shape, dtype=dtype))
                                         for shape in shapes)

    def forward(self, factors):
        total = None
        for p, x in zip(self.ps, factors):
            term = (p * x).sum()
            total = term if total is None else total + term
        return total


class Run:
    def __init__(self, job, rank, group, subgroups):
        self.job, self.rank, self.answer = job, rank, {}
        dtype = torch_jobs.DTYPES[job["dtype"]]
        self.dtype = dtype
        default = dist._DEFAULT_FIRST_BUCKET_BYTES
        options = {}
        if job["cap"] >= 0:
            options["bucket_cap_mb"] = job["cap"] / 2**20
            dist._DEFAULT_FIRST_BUCKET_BYTES = job["cap"]
        self.model = Model(job["shapes"], dtype)
        self.ddp = DistributedDataParallel(self.model, process_group=group, **options)
        register(self.ddp, job, group, subgroups)
        if job["join"]:
            with self.ddp.join():
                self.steps()
        else:
            self.steps()
        dist._DEFAULT_FIRST_BUCKET_BYTES = default

    def steps(self):
        for step in range(self.job["steps"][self.rank]):
            factors = []
            for p, shape in enumerate(self.job["shapes"]):
                g = torch.Generator().manual_seed(
                    self.job["seed"] + p * 100 + step * 10 + self.rank)
                x = torch.empty(shape, dtype=self.dtype).uniform_(-1, 1, generator=g)
                factors.append(x * 2.0 ** self.job["scale"])
            self.ddp(factors).backward()
            self.answer[f"g {self.rank} {step}"] = ",".join(words(p.grad) for p in self.model.ps)
            for p in self.model.ps:
                p.grad = None


def answer_all(rank, n_ranks, jobs):
    torch.Tensor.cuda = lambda self, *_: self
    torch.nn.Module.cuda = lambda self, *_: self
    gather_everything.real, dist.all_gather = dist.all_gather, gather_everything

    def make(store, own, size, timeout):
        return torch_jobs.RecordingGroup(dist.ProcessGroupGloo(store, own, size, timeout), own,
                                         size)

    dist.Backend.register_backend("recording", make, **({} if IS_1 else {"devices": ["cpu"]}))
    dist.init_process_group("gloo", rank=rank, world_size=n_ranks)
    groups = {n: dist.new_group(list(range(n)), backend="recording") for n in (2, 3)}
    alone = [dist.new_group([r], backend="recording") for r in range(n_ranks)][rank]
    for job in jobs:
        answer = {}
        if rank < job["world"]:
            group = groups[job["world"]]
            alone.calls = group.calls  # One list of what this rank called.
            group.calls.clear()
            run = Run(job, rank, group, {1: alone, job["world"]: group})
            answer = {**run.answer, f"c {rank}": ",".join(group.calls)}
        yield answer


def record(path, lines, answers):
    """Short jobs whose gradients travel as bf16, which only a newer PyTorch executes on gloo."""
    with open(path, "w", encoding="ascii") as out:
        out.write(f"# made by tests/live/hooks.py --record with torch {torch.__version__}\n"
                  "# job : kind rank step=gradients, or calls\n")
        for line, answer in zip(lines, answers):
            text = ";".join(f"{key}={answer[key]}" for key in sorted(answer))
            if "bf16" in line and len(text) < 3000:
                out.write(f"{line} : {text}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("probe")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--record", help="write the answers of bf16 jobs into this file")
    parser.add_argument("--job", help="run this line alone")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    rng = random.Random(seed)
    lines = [options.job] if options.job else [draw_job(rng) for _ in range(options.cases)]
    expected = torch_jobs.run_in_processes([parse(line) for line in lines], 3, answer_all)
    if options.record:
        record(options.record, lines, expected)
    n_equal = 0
    for line, theirs, ours in zip(lines, expected, torch_jobs.answers_of(options.probe, lines, "none")):
        n_equal += theirs == ours
        if theirs == ours:
            continue
        print("job     ", line)
        for key in sorted(set(theirs) | set(ours), key=lambda key: (key[0] != "x", key)):
            if theirs.get(key) != ours.get(key):
                print(f"  {key}\n    torch {theirs.get(key, '(nothing)')[:400]}\n"
                      f"    here  {ours.get(key, '(nothing)')[:400]}")
                break
    print(f"hooks: {n_equal} of {len(lines)} jobs equal PyTorch {torch.__version__}; --seed {seed}")
    ok = n_equal == len(lines)
    for mistake in () if options.job else MISTAKES:
        if mistake in ("other-seed", "forgets-errors") and powerSGD_hook is None:
            continue
        n_noticed = sum(a != b for a, b in zip(expected, torch_jobs.answers_of(options.probe, lines, mistake)))
        print(f"hooks: {mistake} is noticed in {n_noticed} jobs")
        ok = ok and n_noticed > 0
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
