"""What two traces say of the same job: digests of parameters, gradients and momenta, and the samples, in order."""
from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_POINTS = {"param": ("forward", "step"), "grad": ("inc", "pre", "post", "used"), "optimizer": ("step",)}
# In the order in which a step computes them.
_WORDS = {("sample", ""): "samples", ("param", "forward"): "parameters ahead of the first step",
          ("grad", "inc"): "a micro-step's own gradients", ("grad", "pre"): "gradients ahead of the reduction",
          ("grad", "post"): "reduced gradients", ("grad", "used"): "the gradients that the step used",
          ("optimizer", "step"): "the optimizer's state after the step", ("param", "step"): "parameters after the step"}


@dataclass(frozen=True)
class Entry:
    """One thing that a rank recorded."""

    step: int
    kind: tuple[str, str]
    name: str  # Of a tensor.
    value: str


@dataclass(frozen=True)
class Compared:
    n_compared: int
    n_steps: int
    difference: str  # The first; "": none.

    @property
    def equal(self) -> bool:
        return not self.difference and self.n_compared > 0

    def text(self, ranks: int) -> str:
        if self.equal:
            return f"equal: {self.n_compared} digests and samples of {self.n_steps} steps on {ranks} ranks, simulated and by PyTorch"
        return f"different: {self.difference or 'nothing was recorded'}"


def read(folder: Path) -> dict[int, list[Entry]]:
    """By rank, in the order in which a job computes."""
    entries: dict[int, list[Entry]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[1:]]
        reduced = {_place(event) for event in events if event.get("point") == "post"}
        for event in events:
            # A backward under no_sync has gradients, which are ahead of no reduction.
            if event.get("point") != "pre" or _place(event) in reduced:
                entries.setdefault(event["rank"], []).extend(_of(event))
    return entries


def _place(event: dict[str, Any]) -> tuple[int, ...]:
    return tuple(event["at"])


def _of(event: dict[str, Any]) -> list[Entry]:
    kind, step = event["kind"], event.get("at", [0] * 5)[4]
    if kind == "sample":
        return [Entry(step, ("sample", ""), "", str(event["ids"]))]
    point = event.get("point", "")
    if point not in _POINTS.get(kind, ()) or (point == "forward" and step > 0):
        return []
    names = [name.replace("/", ".") for name in event["names"]]
    undefined = set(event.get("undefined", ()))
    return [Entry(step, (kind, point), name, "none" if i in undefined else digest)
            for i, (name, digest) in enumerate(zip(names, event["digests"]))]


def _ordered(entries: list[Entry]) -> list[Entry]:
    """Tensors of one event may come in any order, and so may events of one step: by step, kind and tensor."""
    order = list(_WORDS)
    return sorted(entries, key=lambda each: (each.step, order.index(each.kind), each.name))


def compare(simulated: Path, torch: Path) -> Compared:
    ours, theirs = read(simulated), read(torch)
    if ours.keys() != theirs.keys():
        return Compared(0, 0, f"ranks {sorted(ours)} and {sorted(theirs)} were recorded")
    n_compared, steps = 0, set[int]()
    for rank in sorted(ours):
        left, right = _ordered(ours[rank]), _ordered(theirs[rank])
        for one, other in zip(left, right):
            if one != other:
                return Compared(n_compared, len(steps), _difference(rank, one, other))
            n_compared += 1
            steps.add(one.step)
        if len(left) != len(right):
            longer, who = (left, "the simulator") if len(left) > len(right) else (right, "PyTorch")
            at = longer[min(len(left), len(right))]
            return Compared(n_compared, len(steps), f"step {at.step}, rank {rank}: only {who} recorded {_WORDS[at.kind]} {at.name}")
    return Compared(n_compared, len(steps), "")


def _difference(rank: int, one: Entry, other: Entry) -> str:
    if (one.step, one.kind, one.name) != (other.step, other.kind, other.name):
        return (f"rank {rank}: the simulator's step {one.step} has {_WORDS[one.kind]} {one.name} where PyTorch's step "
                f"{other.step} has {_WORDS[other.kind]} {other.name}")
    name = f" `{one.name}`" if one.name else ""
    return f"step {one.step}, rank {rank}: {_WORDS[one.kind]}{name}: {one.value} in the simulator, {other.value} by PyTorch"
