#!/usr/bin/env python3
"""Compares a recording of PyTorch's with a trace of the simulator's, of the same job, part by part.

  compare.py RECORDED SIMULATED             two folders of traces
  compare.py --run BUILD FOLDER             records the three jobs beside this file on Gloo with torchrun, simulates
                                            their scenarios, both into FOLDER, and compares them

A row is a part, how many of its items are equal on all ranks, and the first that is not. Losses are numbers
that round: their row says how far apart they are at most, relative to the loss, in the first and the last step.
"""
from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
JOBS = {"cnn": 3, "gpt": 2, "unused": 4}  # And their ranks.
SIGNATURE = ("group", "seq", "op", "reduce", "dtype", "count", "root")


@dataclass
class Row:
    part: str
    n_equal: int = 0
    n: int = 0
    first: str = ""  # Difference.
    apart: list[float] = field(default_factory=list)  # Of losses, by step.

    def add(self, what: str, recorded: Any, simulated: Any) -> None:
        self.n += 1
        self.n_equal += recorded == simulated
        if recorded != simulated and not self.first:
            self.first = f"{what}: {recorded} recorded, {simulated} simulated"

    @property
    def equal(self) -> bool:
        return self.n == self.n_equal > 0

    def __str__(self) -> str:
        if self.apart:
            return f"{self.part}: {self.n_equal} of {self.n} equal; apart by {self.apart[0]:.1e} in the first step, " \
                   f"{self.apart[-1]:.1e} in the last"
        return f"{self.part}: {self.n_equal} of {self.n} equal" + (f"; {self.first}" if self.first else "")


def events_of(folder: Path) -> list[list[dict[str, Any]]]:
    """By rank."""
    files = sorted(folder.glob("*.jsonl"))
    return [[json.loads(line) for line in path.read_text().splitlines()[1:]] for path in files]


def states(events: list[dict[str, Any]], kind: str, point: str, step: int | None = None) -> dict[str, str]:
    """Digests by name."""
    return {name: digest for event in events if event["kind"] == kind and event["point"] == point
            and step in (None, event["at"][4]) for name, digest in zip(event["names"], event["digests"])}


def calls(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(event[name] for name in SIGNATURE) for event in events
            if event["kind"] == "collective" and event["phase"] == "posted"]


def of_kind(events: list[dict[str, Any]], kind: str, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(event[name] for name in names) for event in events if event["kind"] == kind]


def add_listed(row: Row, what: str, recorded: list[Any], simulated: list[Any]) -> None:
    for i in range(max(len(recorded), len(simulated))):
        sides = [side[i] if i < len(side) else None for side in (recorded, simulated)]
        row.add(f"{what} {i}", *sides)


def compare(recorded: Path, simulated: Path) -> dict[str, Row]:
    names = ("initial tensors", "samples", "epochs", "collectives", "buckets", "tensors after the first step",
             "tensors after the last step", "losses")
    rows = {name: Row(name) for name in names}
    left, right = events_of(recorded), events_of(simulated)
    rows["samples"].add("ranks", len(left), len(right))
    apart: dict[int, float] = {}
    for rank, (ours, theirs) in enumerate(zip(right, left)):
        add_states(rows["initial tensors"], rank, *[states(side, "param", "wrap") | states(side, "buffer", "wrap")
                                                    for side in (theirs, ours)])
        for part, kind, keys in (("samples", "sample", ("ids",)), ("buckets", "bucket", ("indices", "lengths")),
                                 ("epochs", "epoch", ("generator_key", "order_digest", "per_rank"))):
            add_listed(rows[part], f"rank {rank}, {kind}", of_kind(theirs, kind, *keys), of_kind(ours, kind, *keys))
        add_listed(rows["collectives"], f"rank {rank}, call", calls(theirs), calls(ours))
        last = max(event["at"][4] for event in ours if event["kind"] == "param" and event["point"] == "step")
        for part, step in (("tensors after the first step", 0), ("tensors after the last step", last)):
            stepped = [states(side, "param", "step", step) for side in (theirs, ours)]
            both = stepped[0].keys() & stepped[1].keys()  # A recording leaves out what no optimizer holds.
            add_states(rows[part], rank, *[{name: side[name] for name in both} for side in stepped])
        losses = [[(event["at"][4], event["value"]) for event in side if event["kind"] == "loss"] for side in (theirs, ours)]
        add_listed(rows["losses"], f"rank {rank}, loss", *losses)
        for (step, value), (_, own) in zip(*losses):
            apart[step] = max(apart.get(step, 0.0), abs(value - own) / abs(value))
    rows["losses"].apart = [apart[step] for step in sorted(apart)]
    return rows


def add_states(row: Row, rank: int, recorded: dict[str, str], simulated: dict[str, str]) -> None:
    for name in sorted({*recorded, *simulated}):
        row.add(f"rank {rank}, {name}", recorded.get(name), simulated.get(name))


def simulate(build: Path, job: str, folder: Path, steps: int = 0, *changes: str) -> None:
    more = ["--set", f"loop.steps={steps}"] if steps else []
    for change in changes:
        more += ["--set", change]
    subprocess.run([build / "bin" / "lockstep", "run", HERE / f"{job}.toml", "--trace", folder, "--quiet", *more],
                   check=True)


def run(build: Path, folder: Path) -> None:
    for job, ranks in JOBS.items():
        subprocess.run([sys.executable, "-m", "lockstep", "record", "-o", folder / f"{job}-recorded", "--", sys.executable,
                        "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), HERE / f"{job}.py"],
                       check=True, env=dict(os.environ, OMP_NUM_THREADS="1"))
        simulate(build, job, folder / f"{job}-simulated")


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--run"] and len(arguments) == 3:
        folder = Path(arguments[2])
        run(Path(arguments[1]), folder)
        pairs = {job: (folder / f"{job}-recorded", folder / f"{job}-simulated") for job in JOBS}
    elif len(arguments) == 2:
        pairs = {arguments[0]: (Path(arguments[0]), Path(arguments[1]))}
    else:
        sys.exit(__doc__)
    for job, (recorded, simulated) in pairs.items():
        print(job, *compare(recorded, simulated).values(), sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
