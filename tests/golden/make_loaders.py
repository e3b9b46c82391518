"""Writes loaders.txt: what torch's DataLoader yields with real worker processes, pass after pass.

A case is a line of key=value words; its answer is the batches of every pass, each sample as
id@worker=values with the values that reading it drew there, and after each pass one draw of the
main process's generator and one of the given one, which shows what was consumed.
"""

import os
import random
import struct
import warnings

import torch
from torch.utils.data import (DataLoader, IterableDataset, RandomSampler, SubsetRandomSampler,
                              WeightedRandomSampler, get_worker_info)
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter
from torch.utils.data.distributed import DistributedSampler

from golden_format import write

HERE = os.path.dirname(os.path.abspath(__file__))
warnings.filterwarnings("ignore")


def by_index(receive):
    """Results as they arrive when all workers take equally long: in the order of their tasks.

    PyTorch handles the end of a worker's stream when the message arrives, before or after batches of
    lower index, and at once hands its next task to the next worker. So with uneven streams the
    machine's load decides who reads what. Holding back what comes early picks one of PyTorch's own
    orders, the one that can be predicted.
    """
    def receive_next(self):
        held = self.__dict__.setdefault("held_back", {})
        while True:
            due = min((index for index, info in self._task_info.items()
                       if len(info) == 1 and self._workers_status[info[0]]), default=None)
            if due in held:
                return due, held.pop(due)
            index, data = receive(self)
            if due is None or index == due or not isinstance(index, int):
                if due is None:
                    held.clear()  # A new pass: these were asked for by an abandoned one.
                return index, data
            held[index] = data

    return receive_next


_MultiProcessingDataLoaderIter._get_data = by_index(_MultiProcessingDataLoaderIter._get_data)


def bits(value):
    return struct.pack(">d", value).hex()


def sample(index, normal):
    """What an augmentation does: draws from the default generator of the process that reads the sample."""
    info = get_worker_info()
    values = [float(torch.randint(0, 1000000, ()).item())]
    if normal:
        values.append(float(torch.randn(1).item()))
    return f"{index}@{info.id if info else -1}={','.join(bits(v) for v in values)}"


class Rows:
    def __init__(self, case):
        self.case = case

    def __len__(self):
        return self.case["size"]

    def __getitem__(self, index):
        return sample(index, self.case["normal"])


class Stream(IterableDataset):
    def __init__(self, case):
        self.case = case

    def __iter__(self):
        info, case = get_worker_info(), self.case
        worker, count = (info.id, info.num_workers) if info else (0, 1)
        if case["source"] == "uneven":
            ids = range(100 * worker, 100 * worker + (worker * 7 + case["size"]) % 9)
        elif case["source"] == "sharded":
            ids = range(case["rank"] * count + worker, case["size"], case["ranks"] * count)
        else:
            ids = range(case["size"])
        for index in ids:
            yield sample(index, case["normal"])


def reseed(worker):
    torch.manual_seed(42 + worker)


def draw_once(_worker):
    torch.randint(0, 10, ())


def sampler_of(case, given):
    kind, size = case["source"], case["size"]
    rows = range(size)
    if kind == "replacement":
        return RandomSampler(rows, True, case["count"], generator=given)
    if kind == "rounds":
        return RandomSampler(rows, False, case["count"], generator=given)
    if kind == "subset":
        return SubsetRandomSampler(list(range(0, 2 * size, 2)), generator=given)
    if kind == "weighted":
        return WeightedRandomSampler([1.0 + i % 5 for i in rows], case["count"], generator=given)
    if kind == "distributed":
        return DistributedSampler(rows, case["ranks"], case["rank"], True, 3, bool(case["drop"]))
    return None


def loader_of(case, given):
    stream = case["source"] in ("plain", "sharded", "uneven")
    options = {"batch_size": case["batch"], "drop_last": bool(case["drop"]), "generator": given,
               "num_workers": case["workers"], "collate_fn": list}
    if case["workers"] > 0:
        options["prefetch_factor"] = case["prefetch"]
        options["persistent_workers"] = bool(case["persistent"])
        options["worker_init_fn"] = {"none": None, "reseed": reseed, "draw": draw_once}[case["init"]]
    if stream:
        return DataLoader(Stream(case), **options)
    sampler = sampler_of(case, given)
    return DataLoader(Rows(case), sampler=sampler, shuffle=case["source"] == "shuffle", **options)


def passes(case):
    """The answer to a case."""
    torch.manual_seed(case["seed"])
    own = torch.Generator().manual_seed(case["seed"] + 1)
    given = {"none": None, "own": own, "global": torch.default_generator}[case["given"]]
    loader = loader_of(case, given)
    out = []
    for epoch in range(case["epochs"]):
        if case["source"] == "distributed":
            loader.sampler.set_epoch(epoch)
        for k, batch in enumerate(loader):
            out.append(" ".join(batch))
            out.append("|")
            if case["between"]:
                torch.randint(0, 10, ())
            if epoch == 0 and k + 1 == case["stop"]:
                break
        out.append(f"global={torch.randint(0, 1000000, ()).item()}")
        out.append(f"own={torch.randint(0, 1000000, (), generator=own).item()}")
    return " ".join(out)


SOURCES = ["shuffle", "sequential", "replacement", "rounds", "subset", "weighted", "distributed",
           "plain", "sharded", "uneven"]


def one_case(draw, max_workers=4):
    workers = draw.choice([0, 0, 1, 2, 3, 4])
    workers = min(workers, max_workers)
    case = {"source": draw.choice(SOURCES), "size": draw.randint(1, 24),
            "batch": draw.randint(1, 6), "drop": draw.randint(0, 1), "workers": workers,
            "prefetch": draw.randint(1, 3) if workers else 2,
            "persistent": draw.randint(0, 1) if workers else 0,
            "init": draw.choice(["none", "none", "reseed", "draw"]) if workers else "none",
            "given": draw.choice(["none", "own", "global"]), "normal": draw.randint(0, 1),
            "between": draw.randint(0, 1), "count": draw.randint(1, 80), "ranks": draw.randint(1, 3),
            "stop": draw.choice([0, 0, 1, 2]), "epochs": 3, "seed": draw.randrange(2**40)}
    case["rank"] = draw.randrange(case["ranks"])
    return case


def text_of(case):
    return "loader " + " ".join(f"{key}={value}" for key, value in case.items())


def grid():
    """Each way to read, with 0 to 4 workers, persistent or not: three passes."""
    draw = random.Random(4242)
    for source in SOURCES:
        for workers in range(5):
            for persistent in ((0,) if workers == 0 else (0, 1)):
                case = one_case(draw)
                case.update(source=source, workers=workers, persistent=persistent, stop=0,
                            prefetch=case["prefetch"] if workers else 2,
                            init=case["init"] if workers else "none")
                yield case


def main():
    draw = random.Random(77)
    cases = [*grid(), *(one_case(draw) for _ in range(60))]
    write(os.path.join(HERE, "loaders.txt"), "make_loaders.py",
          "loader key=value... : id@worker=bits, batches end with |, passes with the next draws",
          [f"{text_of(case)} : {passes(case)}" for case in cases])


if __name__ == "__main__":
    main()
