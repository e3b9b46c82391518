#!/usr/bin/env python3
"""Writes hooks.txt: what PyTorch's communication hooks make of given buckets on 2 and 3 gloo ranks.

The Python hooks are PyTorch's own, called with buckets of given shapes, one bucket after another (in
a real backward PowerSGD's callbacks of several buckets may overtake each other). The builtin hooks
and the lines `ddp_...` run in DistributedDataParallel on a model of one parameter.

Gradients are randn of a generator seeded by (seed, step, bucket, rank), times a power of two. Two
hooks do not run on gloo as they are and get a helper here: the quantization hooks call .cuda() and
want NCCL's form of an all-gather's result; bf16 sums of two ranks are added by torch itself.
"""

import os
import struct

import numpy
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.algorithms.ddp_comm_hooks import (
    debugging_hooks, default_hooks, post_localSGD_hook, powerSGD_hook, quantization_hooks)
from torch.nn.parallel import DistributedDataParallel

from golden_format import digest, write

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = {"f32": torch.float32, "f64": torch.float64}
NAMES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
         torch.uint8: "u8"}
PLAIN = "7/4x3,5"
MIXED = "3,8x6,5x9,8x6/6x7,4"


def case(hook, n_ranks, dtype="f32", scale=0, steps=3, buckets=PLAIN, **options):
    return dict(hook=hook, n_ranks=n_ranks, dtype=dtype, scale=scale, steps=steps,
                buckets=buckets, options=options)


def all_cases():
    for n_ranks in (2, 3):
        for dtype in DTYPES:
            yield case("allreduce", n_ranks, dtype)
            yield case("fp16", n_ranks, dtype)
            yield case("fp16_wrapper", n_ranks, dtype)
        yield case("fp16", n_ranks, scale=14)  # Some overflow to infinity.
        yield case("fp16", n_ranks, scale=-18)  # Subnormal halves.
        yield case("noop", n_ranks, steps=1)
        yield case("local", n_ranks, start=2, inside=1)
        yield case("local", n_ranks, start=1, inside=0)
        for hook in ("quantize_tensor", "quantize_channel"):
            yield case(hook, n_ranks)
            yield case(hook, n_ranks, scale=-30, steps=1)  # The scale is at its least.
        yield case("quantize_channel", n_ranks, buckets="64x16,300", steps=1)
        yield case("quantize_channel", n_ranks, buckets="64x16", steps=1)  # A channel of padding.
        for hook in ("builtin_allreduce", "builtin_fp16", "ddp_allreduce", "ddp_fp16"):
            yield case(hook, n_ranks, buckets="37")
        for rank in (1, 2):
            for dtype in DTYPES:
                yield case("powersgd", n_ranks, dtype, steps=5, buckets=MIXED, rank=rank, start=2,
                           rate=1)
            yield case("powersgd", n_ranks, steps=4, buckets=MIXED, rank=rank, start=2, rate=1,
                       batch=1, seed=5)
            yield case("powersgd", n_ranks, steps=3, buckets=MIXED, rank=rank, start=0, rate=1,
                       feedback=0, warm=0, eps=1e-3)
        yield case("powersgd", n_ranks, steps=4, buckets="30x31,2x3x4x5", rank=2, start=2, rate=1)
        yield case("powersgd", n_ranks, steps=3, buckets="9,3x3", rank=1, start=2, rate=2)
    yield case("bf16", 2)
    yield case("bf16_wrapper", 2)


class Bucket:
    """What the hooks use of dist.GradBucket."""

    def __init__(self, index, is_last, flat, shapes):
        self._index, self._is_last, self._flat, self._shapes = index, is_last, flat, shapes

    def index(self):
        return self._index

    def is_last(self):
        return self._is_last

    def buffer(self):
        return self._flat

    def set_buffer(self, flat):
        self._flat = flat

    def gradients(self):
        sizes = [numpy.prod(shape, dtype=int).item() for shape in self._shapes]
        return [part.view(shape) for part, shape in zip(self._flat.split(sizes), self._shapes)]


def shapes_of(text):
    return [[[int(n) for n in shape.split("x")] for shape in bucket.split(",")]
            for bucket in text.split("/")]


def gradients(one, index, step, bucket, rank, count):
    g = torch.Generator().manual_seed(index * 10000 + step * 100 + bucket * 10 + rank)
    return torch.randn(count, generator=g, dtype=DTYPES[one["dtype"]]) * 2.0 ** one["scale"]


def words(tensor):
    form = ">f" if tensor.dtype == torch.float32 else ">d"
    flat = [struct.pack(form, value).hex() for value in tensor.reshape(-1).tolist()]
    return flat if len(flat) <= 80 else ["#", str(len(flat)), digest(int(w, 16) for w in flat)]


class Posted:
    """Notes collectives on their way to gloo, and stands in where gloo cannot."""

    def __init__(self):
        self.texts = []
        self.all_reduce, self.all_gather = dist.all_reduce, dist.all_gather
        dist.all_reduce, dist.all_gather = self.reduce, self.gather

    def note(self, op, tensor):
        self.texts.append(f"{op} {NAMES[tensor.dtype]}[{tensor.numel()}]")

    def reduce(self, tensor, group=None, async_op=False):
        self.note("AR", tensor)
        if tensor.dtype != torch.bfloat16:
            return self.all_reduce(tensor, group=group, async_op=async_op)
        parts = [torch.empty_like(tensor) for _ in range(2)]
        assert dist.get_world_size() == 2
        self.all_gather([part.view(torch.uint8) for part in parts], tensor.view(torch.uint8))
        tensor.copy_(parts[0] + parts[1])
        return Done([tensor])

    def gather(self, parts, tensor, group=None, async_op=False):
        self.note("AG", tensor)
        self.all_gather(parts, tensor, group=group)
        return Done([torch.stack(parts)])


class Done:
    def __init__(self, value):
        self.value = value

    def get_future(self):
        future = torch.futures.Future()
        future.set_result(self.value)
        return future


def hook_of(one, subgroup):
    """The hook, and its state."""
    options = one["options"]
    plain = {"allreduce": default_hooks.allreduce_hook, "fp16": default_hooks.fp16_compress_hook,
             "bf16": default_hooks.bf16_compress_hook, "noop": debugging_hooks.noop_hook,
             "fp16_wrapper": default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook),
             "bf16_wrapper": default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook),
             "quantize_tensor": quantization_hooks.quantization_pertensor_hook,
             "quantize_channel": quantization_hooks.quantization_perchannel_hook}
    if one["hook"] in plain:
        return plain[one["hook"]], None
    if one["hook"] == "local":
        return post_localSGD_hook.post_localSGD_hook, post_localSGD_hook.PostLocalSGDState(
            None, subgroup, options["start"], bool(options["inside"]))
    return powerSGD_hook.powerSGD_hook, powerSGD_hook.PowerSGDState(
        None, options["rank"], options["start"], options["rate"],
        bool(options.get("feedback", 1)), bool(options.get("warm", 1)), options.get("eps", 0),
        options.get("seed", 0), batch_tensors_with_same_shape=bool(options.get("batch", 0)))


def run_hook(one, index, rank, subgroup):
    """This rank's result words, and what follows the bar."""
    hook, state = hook_of(one, subgroup)
    posted = Posted()
    out = []
    for step in range(one["steps"]):
        buckets = shapes_of(one["buckets"])
        for b, shapes in enumerate(buckets):
            count = sum(numpy.prod(shape, dtype=int).item() for shape in shapes)
            flat = gradients(one, index, step, b, rank, count)
            result = hook(state, Bucket(b, b + 1 == len(buckets), flat, shapes)).wait()
            out += words(result.to(DTYPES[one["dtype"]]))
    dist.all_reduce, dist.all_gather = posted.all_reduce, posted.all_gather
    extra = []
    if one["hook"] == "powersgd":
        extra = [str(state.total_numel_before_compression),
                 str(state.total_numel_after_compression), str(state.iter)]
        errors = [w for b in sorted(state.error_dict) for w in words(state.error_dict[b])]
        extra += errors
    return out, extra, ";".join(posted.texts).replace(" ", "_")


def run_ddp(one, index, rank):
    model = torch.nn.Module()
    model.w = torch.nn.Parameter(torch.zeros(shapes_of(one["buckets"])[0][0]))
    model.forward = lambda x: (model.w * x).sum()
    ddp = DistributedDataParallel(model)
    if one["hook"].startswith("builtin"):
        kind = "ALLREDUCE" if one["hook"].endswith("allreduce") else "FP16_COMPRESS"
        ddp._register_builtin_comm_hook(getattr(dist.BuiltinCommHookType, kind))
    else:
        allreduce = one["hook"].endswith("allreduce")
        ddp.register_comm_hook(None, default_hooks.allreduce_hook if allreduce
                               else default_hooks.fp16_compress_hook)
    out = []
    for step in range(one["steps"]):
        ddp.zero_grad()
        ddp(gradients(one, index, step, 0, rank, model.w.numel())).backward()
        out += words(model.w.grad)
    return out, [], ""


def run_rank(rank, n_ranks, answers):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(29870 + n_ranks))
    torch.set_num_threads(1)
    torch.Tensor.cuda = lambda self, *_: self
    torch.nn.Module.cuda = lambda self, *_: self
    dist.init_process_group("gloo", rank=rank, world_size=n_ranks)
    subgroups = [dist.new_group([0, 1])] + [dist.new_group([r]) for r in range(2, n_ranks)]
    for index, one in enumerate(all_cases()):
        if one["n_ranks"] != n_ranks:
            continue
        in_ddp = one["hook"].startswith(("builtin", "ddp"))
        answers[(index, rank)] = (run_ddp(one, index, rank) if in_ddp else
                                  run_hook(one, index, rank, subgroups[max(0, rank - 1)]))
    dist.destroy_process_group()


def hook_lines():
    """Results by step and bucket: once where ranks agree, else rank after rank. Then for PowerSGD
    elements before and after, iterations, and each rank's errors. Then the collectives of rank 0."""
    with mp.Manager() as manager:
        answers = manager.dict()
        for n_ranks in (2, 3):
            mp.spawn(run_rank, args=(n_ranks, answers), nprocs=n_ranks)
        for index, one in enumerate(all_cases()):
            ranks = [answers[(index, rank)] for rank in range(one["n_ranks"])]
            agree = all(answer[0] == ranks[0][0] for answer in ranks)
            assert agree == (one["hook"] not in ("noop", "local")) or one["hook"] == "local"
            results = ranks[0][0] if agree else sum((answer[0] for answer in ranks), [])
            extra = ranks[0][1][:3] + sum((answer[1][3:] for answer in ranks), [])
            options = ";".join(f"{k}={v}" for k, v in one["options"].items()) or "-"
            yield (f"{one['hook']} {one['n_ranks']} {one['dtype']} {index} {one['scale']} "
                   f"{one['steps']} {one['buckets']} {options} {int(agree)} : "
                   f"{' '.join(results)} | {' '.join(extra)} | {ranks[0][2]}")


def seed_lines():
    for seed in (0, 1, 4294967295):
        rng = numpy.random.RandomState(seed)
        yield f"seeds {seed} : {' '.join(str(rng.randint(1_000_000_000)) for _ in range(40))}"


def orthogonalize_lines():
    """Stacks of matrices and what _orthogonalize makes of them."""
    for dtype in DTYPES:
        for sizes in ((1, 1, 1), (1, 6, 1), (1, 7, 1), (3, 8, 1), (1, 13, 1), (2, 12, 1), (2, 20, 1), (1, 900, 1), (1, 2, 2),
                      (1, 5, 2), (3, 9, 2), (1, 33, 2), (2, 600, 2), (1, 2500, 2), (2, 6, 3),
                      (1, 4, 4), (1, 12, 5)):
            for eps in ((0, 1e-3) if sizes[2] <= 2 else (0,)):
                g = torch.Generator().manual_seed(sum(sizes))
                matrices = torch.randn(*sizes, generator=g, dtype=DTYPES[dtype])
                powerSGD_hook._orthogonalize(matrices, eps)
                result = " ".join(words(matrices.contiguous()))
                yield f"orthogonalize {dtype} {' '.join(str(n) for n in sizes)} {eps} : {result}"


def main():
    torch.set_num_threads(1)
    write(os.path.join(HERE, "hooks.txt"), "make_hooks.py",
          "hook ranks dtype case scale steps buckets options agree : results | state | collectives",
          list(hook_lines()) + list(seed_lines()) + list(orthogonalize_lines()))


if __name__ == "__main__":
    main()
