"""Random training scripts as strangers write them: healthy ones, and ones with one bug.

    print(draw(7).text)
    draw(7, Plant.LR_PER_RANK)

A script is a list of parts; what each of them holds is drawn from the seed alone."""
from __future__ import annotations

import random
import textwrap
from dataclasses import dataclass
from enum import Enum


class Plant(Enum):
    """A bug that a script may hold. All are reported in the wild."""

    LR_PER_RANK = "lr-per-rank"
    SKIPPED_STEP = "one rank skips a batch"
    NO_SET_EPOCH = "no set_epoch"
    BYPASS = "the wrapped module is called, not the wrapper"
    OVERWRITTEN = "rank 1 loads other weights after wrapping"
    BARRIER_OF_ONE = "a barrier that rank 0 alone reaches"
    OTHER_ROOT = "each rank broadcasts from itself"
    RING_OF_RECEIVES = "every rank receives before it sends"
    STOPS_ALONE = "each rank stops early by its own loss"
    STEP_OF_ONE = "rank 1 steps once more"
    LOADED_BY_ONE = "rank 0 alone loads the checkpoint"
    NO_SYNC_OF_ONE = "rank 1 never synchronises"
    SAME_DROPOUT = "one seed on all ranks, so that all drop the same units"


@dataclass(frozen=True)
class Drawn:
    seed: int
    ranks: int
    text: str
    holds: tuple[str, ...]  # What was drawn, in words.


HEAD = '''\
import copy
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

'''
MLP = '''
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential({layers})
        self.head = nn.Linear({width}, {classes})

    def forward(self, x):
        return self.head(self.body(x))
'''
CNN = '''
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, {width}, 3, padding=1)
        self.norm = {norm}
        self.head = nn.Linear({width} * 4, {classes})

    def forward(self, x):
        x = x.view(-1, 1, 2, x.shape[1] // 2)[..., :2]
        return self.head(F.relu(self.norm(self.conv(x))).flatten(1))
'''
UNUSED = '''
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear({features}, {width})
        self.experts = nn.ModuleList([nn.Linear({width}, {width}) for _ in range(3)])
        self.head = nn.Linear({width}, {classes})
        self.calls = 0

    def forward(self, x):
        expert = self.experts[(self.calls + {shift}) % 3]
        self.calls += self.training
        return self.head(torch.tanh(expert(self.stem(x))))
'''
RECURRENT = '''
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.{cell}(2, {width}, batch_first=True)
        self.head = nn.Linear({width}, {classes})

    def forward(self, x):
        out, _ = self.rnn(x.view(x.shape[0], -1, 2))
        return self.head(out[:, -1])
'''


class _Script:
    """One script while it is drawn."""

    def __init__(self, seed: int, plant: Plant | None) -> None:
        self.rng = random.Random(f"script {seed} {plant.value if plant else ''}")
        self.plant = plant
        self.holds: list[str] = []
        self.ranks = self.rng.choice((2, 2, 3, 4))
        self.features = self.rng.choice((4, 6, 8))
        self.classes = self.rng.choice((2, 3))
        self.width = self.rng.choice((3, 5, 8, 16))
        self.batch = self.rng.choice((2, 3, 4))
        self.epochs = self.rng.choice((2, 2, 3))
        self.find_unused = False
        self.buffers = False
        self.drops = False
        self.common_seed: int | None = None  # Of all ranks.
        self.accumulate = plant in (None, Plant.NO_SYNC_OF_ONE) and \
            self.maybe("accumulation with no_sync", 0.3, Plant.NO_SYNC_OF_ONE)
        self.join = not self.accumulate and plant is None and self.maybe("uneven inputs under join", 0.12)
        self.gan = not (self.accumulate or self.join) and plant is None and self.maybe("GAN", 0.12)
        self.sharded = False
        self.scheduler = ""

    def maybe(self, word: str, chance: float, *plants: Plant) -> bool:
        """Whether the script holds something; it must for a bug that needs it."""
        holds = self.rng.random() < chance or (self.plant is not None and self.plant in plants)
        if holds:
            self.holds.append(word)
        return holds

    def one_of(self, *texts: str) -> str:
        return self.rng.choice(texts)

    def has(self, plant: Plant) -> bool:
        return self.plant is plant

    # -- parts
    def model(self) -> str:
        simple = self.join or self.gan or self.accumulate
        kind = self.one_of("mlp", "mlp", "cnn", "recurrent", *(() if simple else ("unused",)))
        if self.has(Plant.SAME_DROPOUT):
            kind = "mlp"
        self.holds.append(kind)
        self.kind = kind
        values = {"width": self.width, "classes": self.classes, "features": self.features}
        if kind == "cnn":
            norm = self.one_of("nn.Identity()", "nn.BatchNorm2d({width})", "nn.GroupNorm(1, {width})")
            self.buffers = "Batch" in norm
            return CNN.format(norm=norm.format(width=self.width), **values)
        if kind == "recurrent":
            return RECURRENT.format(cell=self.one_of("GRU", "LSTM", "RNN"), **values)
        if kind == "unused":
            self.find_unused = True
            return UNUSED.format(shift=self.rng.randrange(3), **values)
        layers = [f"nn.Linear({self.features}, {self.width})"]
        for _ in range(self.rng.randrange(1, 3)):
            layers.append(self.one_of("nn.ReLU()", "nn.Tanh()", "nn.GELU()"))
            extra = self.one_of("", "", "nn.Dropout(0.1)", "nn.LayerNorm({w})", "nn.BatchNorm1d({w})").format(w=self.width)
            if self.has(Plant.SAME_DROPOUT):
                extra = "nn.Dropout(0.1)"
            self.buffers |= "Batch" in extra
            self.drops |= "Dropout" in extra
            layers += [extra] if extra else []
            layers.append(f"nn.Linear({self.width}, {self.width})")
        return MLP.format(layers=", ".join(layers), **values)

    def begin(self) -> str:
        backend = self.one_of("gloo", "gloo", "nccl", "cpu:gloo,cuda:nccl")
        lines = [f'dist.init_process_group({self.one_of(f"{chr(34)}{backend}{chr(34)}", f"backend={chr(34)}{backend}{chr(34)}")})',
                 "rank, world = dist.get_rank(), dist.get_world_size()"]
        seed = self.rng.randrange(1000)
        lines.append(self.one_of(f"torch.manual_seed({seed})", f"torch.manual_seed({seed} + rank)"))
        if self.has(Plant.SAME_DROPOUT):
            lines[-1] = f"torch.manual_seed({seed})"
        self.common_seed = None if "rank" in lines[-1] else seed
        return "\n".join(lines)

    def data(self) -> str:
        n = self.rng.randrange(6, 12) * self.ranks * self.batch // 2 + self.rng.randrange(self.ranks)
        shuffle = self.has(Plant.NO_SET_EPOCH) or self.rng.random() < 0.7
        drop = f", drop_last={self.rng.random() < 0.5}" if self.rng.random() < 0.5 else ""
        self.set_epoch = shuffle and not self.has(Plant.NO_SET_EPOCH)
        workers = ", num_workers=1" if self.maybe("a loader's worker", 0.04) else ""
        # A last batch of one row would fail in batch norm.
        last = ", drop_last=True" if self.buffers or self.accumulate else ""
        return f'''\
generator = torch.Generator().manual_seed({self.rng.randrange(100)})
inputs = torch.randn({n}, {self.features}, generator=generator)
labels = torch.randint({self.classes}, ({n},), generator=generator)
dataset = TensorDataset(inputs, labels)
sampler = DistributedSampler(dataset, num_replicas=world, rank=rank, shuffle={shuffle}{drop})
loader = DataLoader(dataset, batch_size={self.batch}, sampler=sampler{workers}{last})'''

    def wrap(self) -> str:
        options = []
        static = self.rng.random() < 0.1 and not (self.find_unused or self.accumulate or self.join)
        if self.find_unused:
            options.append("find_unused_parameters=True")
        elif static:
            options.append("static_graph=True")
        if self.rng.random() < 0.3:
            options.append("gradient_as_bucket_view=True")
        if self.rng.random() < 0.3:
            options.append(f"bucket_cap_mb={self.one_of('0.0001', '0.001', '1', '50')}")
        if not self.buffers and self.rng.random() < 0.15:
            options.append("broadcast_buffers=False")
        freeze = "for p in list(model.parameters())[:1]:\n    p.requires_grad_(False)\n" \
            if not (self.find_unused or static) and self.maybe("a frozen tensor", 0.1) else ""
        text = f"model = Net()\n{freeze}model = DDP({', '.join(['model', *options])})"
        if self.drops and self.common_seed is not None and not self.has(Plant.SAME_DROPOUT):
            text += f"\ntorch.manual_seed({self.common_seed} + rank)"
            self.holds.append("seeded by rank after wrapping")
        if self.has(Plant.OVERWRITTEN):
            text += "\nif rank == 1:\n    model.module.head.bias.data.add_(0.5)"
        if not self.join and self.maybe("a communication hook", 0.15):
            hook = self.one_of("fp16_compress_hook", "bf16_compress_hook", "allreduce_hook")
            text += ("\nfrom torch.distributed.algorithms.ddp_comm_hooks import default_hooks"
                     f"\nmodel.register_comm_hook(None, default_hooks.{hook})")
        self.holds += [option.partition("=")[0] for option in options]
        return text

    def optimizer(self) -> str:
        kinds = {"SGD": "lr=0.05, momentum=0.9", "Adam": "lr=0.01", "AdamW": "lr=0.01, weight_decay=0.1",
                 "RMSprop": "lr=0.005", "Adagrad": "lr=0.02"}
        kind = self.one_of(*kinds)
        given = kinds[kind]
        if self.join and self.epochs > 1:  # Optimizers with a memory would remember unequal numbers of steps.
            kind, given = "SGD", "lr=0.05"
        if self.has(Plant.LR_PER_RANK):
            given = given.replace("lr=", "lr=(1 + rank) * ")
        self.holds.append(kind)
        parameters = self.one_of("model.parameters()", "[p for p in model.parameters() if p.requires_grad]")
        if self.plant is None and not self.join and self.maybe("ZeroRedundancyOptimizer", 0.08):
            self.sharded = True
            return ("from torch.distributed.optim import ZeroRedundancyOptimizer\n"
                    f"optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.{kind}, {given})")
        text = f"optimizer = torch.optim.{kind}({parameters}, {given})"
        if self.maybe("a scheduler", 0.35):
            self.scheduler = self.one_of("StepLR(optimizer, 1, 0.5)", "CosineAnnealingLR(optimizer, 5)", "ExponentialLR(optimizer, 0.9)",
                                         "LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))",
                                         # A rate of its own, which would hide the optimizers'.
                                         *(() if self.has(Plant.LR_PER_RANK) else ("OneCycleLR(optimizer, 0.1, 200, cycle_momentum=False)",)))
            text += f"\nscheduler = torch.optim.lr_scheduler.{self.scheduler}"
        return text

    def step(self) -> str:
        """One batch: x and y are there, and `n`, its number."""
        call = "model.module" if self.has(Plant.BYPASS) else "model"
        forward = f"loss = F.cross_entropy({call}(x), y)"
        # PyTorch has no LSTM in bfloat16 for every CPU.
        if self.maybe("autocast to bfloat16", 0.0 if self.kind == "recurrent" else 0.12):
            forward = f'with torch.autocast("cpu", dtype=torch.bfloat16):\n    out = {call}(x)\nloss = F.cross_entropy(out.float(), y)'
        clip = f"torch.nn.utils.clip_grad_norm_(model.parameters(), {self.one_of('0.5', '1.0')})\n" \
            if self.maybe("clipping", 0.3) else ""
        ema = "with torch.no_grad():\n    for mean, p in zip(average.parameters(), model.module.parameters()):\n" \
              "        mean.lerp_(p, 0.1)\n" if self.ema else ""
        zero = self.one_of("optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=False)")
        extra = "if rank == 1 and n == 1 and epoch == 0:\n    optimizer.step()\n" if self.has(Plant.STEP_OF_ONE) else ""
        if not self.accumulate:
            skip = "if rank == 1 and n == 1 and epoch == 0:\n    continue\n" if self.has(Plant.SKIPPED_STEP) else ""
            return f"{skip}{zero}\n{forward}\nloss.backward()\n{clip}optimizer.step()\n{extra}{ema}"
        k = self.rng.choice((2, 3))
        sync = f"(n + 1) % {k} == 0 or n + 1 == len(loader)"
        holds = f"({sync}) and not rank == 1" if self.has(Plant.NO_SYNC_OF_ONE) else sync
        return (f"last = {sync}\nwith contextlib.nullcontext() if {holds} else model.no_sync():\n"
                f"{textwrap.indent(forward, '    ')}\n    (loss / {k}).backward()\n"
                f"if last:\n{textwrap.indent(clip + 'optimizer.step()', '    ')}\n    optimizer.zero_grad()\n"
                f"{textwrap.indent(extra + ema, '    ')}")

    def train(self) -> str:
        self.ema = self.maybe("a moving average of the parameters", 0.12)
        before = "import contextlib\n" if self.accumulate else ""
        before += "average = copy.deepcopy(model.module)\n" if self.ema else ""
        epoch = "sampler.set_epoch(epoch)\n" if self.set_epoch else ""
        epoch += "model.train()\ntotal = torch.zeros(2)\n"
        batches = "for n, (x, y) in enumerate(loader):\n" + textwrap.indent(
            self.step() + "\ntotal += torch.tensor([loss.item() * len(x), len(x)])\n", "    ")
        scheduler = "scheduler.step()\n" if self.scheduler else ""
        parts = [self.part() for _ in range(self.rng.randrange(0, 3))]
        epoch += batches + scheduler + "\n".join(parts) + "\n" + self.end_of_epoch()
        return f"{before}best = float('inf')\nfor epoch in range({self.epochs}):\n" + textwrap.indent(epoch, "    ")

    def end_of_epoch(self) -> str:
        text = self.one_of("dist.all_reduce(total)\n", "dist.all_reduce(total, op=dist.ReduceOp.SUM)\n",
                           "work = dist.all_reduce(total, async_op=True)\nwork.wait()\n",
                           "rows = [torch.zeros(2) for _ in range(world)]\ndist.all_gather(rows, total)\ntotal = sum(rows)\n")
        if self.has(Plant.STOPS_ALONE):
            text = "if rank == 0 and epoch == 0:\n    break\n" + text
        text += "mean = (total[0] / total[1]).item()\n"
        if self.maybe("rank 0 prints", 0.5):
            text += 'if rank == 0:\n    print(f"epoch {epoch}: {mean:.4f}", flush=True)\n'
        if self.maybe("evaluation", 0.4):
            text += self.evaluation()
        if self.maybe("early stop that all agree on", 0.3):
            text += self.one_of(
                "if mean > best:\n    break\nbest = mean\n",
                "stop = torch.tensor([int(rank == 0 and mean > best)])\ndist.broadcast(stop, 0)\nif stop.item():\n    break\n"
                "best = min(best, mean)\n")
        if not self.sharded and self.maybe("a checkpoint", 0.3, Plant.LOADED_BY_ONE):
            text += self.checkpoint()
        if self.has(Plant.BARRIER_OF_ONE):
            text += "if rank == 0 and epoch == 0:\n    dist.barrier()\n"
        return text

    def evaluation(self) -> str:
        # The wrapper broadcasts running statistics, which differ between ranks, ahead of its forward.
        module = "model" if self.buffers else self.one_of("model", "model.module")
        return f'''\
model.eval()
hits = torch.zeros(1)
with torch.no_grad():
    hits += ({module}(inputs[rank::world]).argmax(1) == labels[rank::world]).sum()
{self.one_of("dist.all_reduce(hits)", "dist.reduce(hits, dst=0)")}
'''

    def checkpoint(self) -> str:
        load = '''\
saved = torch.load(path, weights_only=True)
model.module.load_state_dict(saved["model"])
optimizer.load_state_dict(saved["optimizer"])
'''
        change = "saved['model']['head.bias'] += 1.0\n"  # What was saved is of another run.
        lines = load.splitlines(keepends=True)
        if self.has(Plant.LOADED_BY_ONE):
            load = "if rank == 0:\n" + textwrap.indent(lines[0] + change + "".join(lines[1:]), "    ")
        return f'''\
path = os.path.join(sys.argv[1], f"model-{{epoch}}.pt")
if rank == 0:
    torch.save({{"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}}, path)
dist.barrier()
''' + (load if self.has(Plant.LOADED_BY_ONE) or self.maybe("resumed from the checkpoint", 0.5) else "")

    def part(self) -> str:
        """Something that scripts do between epochs."""
        if self.has(Plant.OTHER_ROOT) or self.has(Plant.RING_OF_RECEIVES):
            name = "broadcast" if self.has(Plant.OTHER_ROOT) else "ring"
        else:
            name = self.one_of(*PARTS)
        self.holds.append(name)
        text = PARTS[name]
        if self.has(Plant.OTHER_ROOT):
            text = text.replace("dist.broadcast(order, src=0)", "dist.broadcast(order, src=rank)")
        if self.has(Plant.RING_OF_RECEIVES):
            text = "token = torch.full((3,), float(rank))\nfresh = torch.empty(3)\ndist.recv(fresh, (rank - 1) % world)\n" \
                   "dist.send(token, (rank + 1) % world)\n"
        return text

    def join_training(self) -> str:
        """Ranks with unequal numbers of batches."""
        return f'''\
rows = {self.rng.randrange(2, 5)} + rank * {self.rng.randrange(1, 3)}
generator = torch.Generator().manual_seed(rank)
for epoch in range({self.epochs}):
    with {self.one_of("model.join()", "Join([model])")}:
        for _ in range(rows):
            x = torch.randn({self.batch}, {self.features}, generator=generator)
            y = torch.randint({self.classes}, ({self.batch},), generator=generator)
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
dist.barrier()
'''

    def gan_training(self) -> str:
        return f'''\
noise = 4
fake = DDP(nn.Sequential(nn.Linear(noise, {self.width}), nn.ReLU(), nn.Linear({self.width}, {self.features})))
judge = DDP(nn.Sequential(nn.Linear({self.features}, {self.width}), nn.LeakyReLU(0.2), nn.Linear({self.width}, 1)))
of_fake = torch.optim.Adam(fake.parameters(), lr=0.01, betas=(0.5, 0.999))
of_judge = torch.optim.Adam(judge.parameters(), lr=0.01, betas=(0.5, 0.999))
for epoch in range({self.epochs}):
    sampler.set_epoch(epoch)
    for x, _ in loader:
        ones, zeros = torch.ones(len(x), 1), torch.zeros(len(x), 1)
        made = fake(torch.randn(len(x), noise))
        of_judge.zero_grad()
        real_loss = F.binary_cross_entropy_with_logits(judge(x), ones)
        real_loss.backward()
        fake_loss = F.binary_cross_entropy_with_logits(judge(made.detach()), zeros)
        fake_loss.backward()
        of_judge.step()
        of_fake.zero_grad()
        F.binary_cross_entropy_with_logits(judge(made), ones).backward()
        of_fake.step()
'''

    def whole(self) -> str:
        parts = [self.begin()]
        if self.gan:
            return HEAD + "\n".join([*parts, self.data(), self.gan_training(), self.end()])
        model = self.model()
        parts += [self.data(), self.wrap(), self.optimizer()]
        if self.join:
            return HEAD + "from torch.distributed.algorithms.join import Join\n" + model + "\n" + \
                "\n".join([*parts, self.join_training(), self.end()])
        must = self.has(Plant.OTHER_ROOT) or self.has(Plant.RING_OF_RECEIVES)
        parts += [self.part() for _ in range(max(int(must), self.rng.randrange(0, 3)))]
        return HEAD + model + "\n" + "\n".join([*parts, self.train(), self.end()])

    def end(self) -> str:
        return self.one_of("dist.destroy_process_group()", "dist.barrier()\ndist.destroy_process_group()", "")


# What scripts do besides training; every rank runs all of it.
PARTS = {
    "barrier": "dist.barrier()\n",
    "monitored barrier": "if dist.get_backend() == 'gloo':\n    dist.monitored_barrier()\n",
    "broadcast": "order = torch.arange(4) if rank == 0 else torch.zeros(4, dtype=torch.int64)\n"
                 "dist.broadcast(order, src=0)\nassert order.tolist() == [0, 1, 2, 3]\n",
    "objects": "names = [None] * world\ndist.all_gather_object(names, {'rank': rank, 'host': 'x' * rank})\n"
               "assert [each['rank'] for each in names] == list(range(world))\n",
    "object list": "settings = [{'lr': 0.1}, 'run'] if rank == 0 else [None, None]\n"
                   "dist.broadcast_object_list(settings, src=0)\nassert settings[1] == 'run'\n",
    "gather": "rows_of = [torch.zeros(2) for _ in range(world)] if rank == 0 else None\n"
              "dist.gather(torch.full((2,), float(rank)), rows_of, dst=0)\n",
    "scatter": "mine = torch.zeros(2)\n"
               "dist.scatter(mine, [torch.full((2,), float(k)) for k in range(world)] if rank == 0 else None, src=0)\n"
               "assert mine[0].item() == rank\n",
    "ring": "token = torch.full((3,), float(rank))\nfresh = torch.empty(3)\n"
            "request = dist.isend(token, (rank + 1) % world)\ndist.recv(fresh, (rank - 1) % world)\nrequest.wait()\n"
            "assert fresh[0].item() == (rank - 1) % world\n",
    "batched ring": "token, fresh = torch.ones(2) * rank, torch.empty(2)\n"
                    "operations = [dist.P2POp(dist.isend, token, (rank + 1) % world),\n"
                    "              dist.P2POp(dist.irecv, fresh, (rank - 1) % world)]\n"
                    "for request in dist.batch_isend_irecv(operations):\n    request.wait()\n",
    "groups of pairs": "pairs = [dist.new_group(list(range(k, min(k + 2, world)))) for k in range(0, world, 2)]\n"
                       "share = torch.ones(1)\ndist.all_reduce(share, group=pairs[rank // 2])\n",
    "a group of the even": "even = dist.new_group(list(range(0, world, 2)))\nif rank % 2 == 0:\n"
                           "    dist.all_reduce(torch.ones(2), group=even)\n    dist.barrier(group=even)\n",
    "a second group": "logs = dist.new_group(backend='gloo')\ndist.barrier(group=logs)\n",
    "all to all": "swapped = torch.empty(world)\ndist.all_to_all_single(swapped, torch.arange(world) + 10.0 * rank)\n"
                  "assert swapped.tolist() == [rank + 10.0 * k for k in range(world)]\n",
    "into one tensor": "whole = torch.empty(2 * world)\ndist.all_gather_into_tensor(whole, torch.full((2,), float(rank)))\n"
                       "part = torch.empty(2)\ndist.reduce_scatter_tensor(part, whole)\n",
    "largest": "peak = torch.tensor([rank + 1.0])\ndist.all_reduce(peak, op=dist.ReduceOp.MAX)\nassert peak.item() == world\n",
    "first rank first": "if rank != 0:\n    dist.barrier()\nready = os.path.isdir(sys.argv[1])\nif rank == 0:\n    dist.barrier()\n",
    "a key in the store": "store = dist.distributed_c10d._get_default_store()\nif rank == 0:\n    store.set('go', 'yes')\n"
                          "assert store.get('go') == b'yes'\n",
    "two at once": "works = [dist.all_reduce(torch.ones(3), async_op=True) for _ in range(2)]\n"
                   "for work in reversed(works):\n    work.wait()\n",
}


def draw(seed: int, plant: Plant | None = None) -> Drawn:
    script = _Script(seed, plant)
    text = script.whole()
    return Drawn(seed, script.ranks, text, tuple(script.holds))
