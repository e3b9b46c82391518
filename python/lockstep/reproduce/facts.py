"""What a trace says about its job: all that a small job like it can be made of."""
from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Event = dict[str, Any]
MESSAGES = ("send", "recv")


@dataclass(frozen=True)
class Call:
    """A collective or message as one rank made it."""

    op: str
    group: int
    seq: int
    dtype: str
    count: int
    root: int
    peer: int
    tag: int
    reduce: str
    site: str
    step: int
    after: str  # The last step, forward or backward of the rank before it.
    completed: bool = False


@dataclass
class RankFacts:
    rank: int
    calls: list[Call] = field(default_factory=list)
    groups: dict[int, list[int]] = field(default_factory=dict)
    steps: list[Event] = field(default_factory=list)
    clips: list[Event] = field(default_factory=list)
    forwards: list[Event] = field(default_factory=list)
    batches: list[Event] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)  # How many, forward by forward.
    epochs: list[Event] = field(default_factory=list)
    options: list[Event] = field(default_factory=list)
    wraps: list[Event] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)  # Elements of parameters.
    accumulate: int = 1


@dataclass
class Facts:
    title: str
    ranks: list[RankFacts]

    @property
    def n(self) -> int:
        return len(self.ranks)

    def trains(self) -> bool:
        return any(rank.wraps for rank in self.ranks) and any(rank.steps for rank in self.ranks)

    def n_steps(self) -> int:
        return max((len(rank.steps) for rank in self.ranks), default=0)

    def rates(self) -> list[float | None]:
        """The learning rate of each rank's first step."""
        return [float(rank.steps[0]["lr"]) if rank.steps else None for rank in self.ranks]

    def option(self, name: str, default: float) -> float:
        for rank in self.ranks:
            for event in rank.options:
                if name in event["options"]:
                    return float(event["values"][event["options"].index(name)])
        return default

    def batch(self) -> int:
        """The most common number of samples of a forward."""
        counts = Counter(n for rank in self.ranks for n in self.batches_of(rank))
        return counts.most_common(1)[0][0] if counts else 4

    @staticmethod
    def batches_of(rank: RankFacts) -> list[int]:
        declared = [int(event["n_samples"]) for event in rank.batches if event["n_samples"] > 0]
        return declared or rank.samples

    def window_of(self, rank: RankFacts, step: int, of_tokens: bool) -> list[int]:
        """How many samples, or tokens, each micro-step of a step had; one number where the ranks have
        different numbers of micro-steps."""
        counts = [int(event["n_tokens"]) for event in rank.batches] if of_tokens else self.batches_of(rank)
        n = rank.accumulate
        own = counts[step * n:(step + 1) * n]
        if len(own) == n and all(other.accumulate == n for other in self.ranks):
            return own
        return [counts[min(step, len(counts) - 1)] if counts else 1]

    def dataset_size(self) -> int:
        sizes = [int(event["dataset_size"]) for rank in self.ranks for event in rank.epochs]
        return max(sizes, default=0) or self.batch() * self.n * max(1, self.n_steps())

    def widths(self) -> list[int]:
        """Of the plain network of linear layers that the parameters are, or of a small one."""
        sizes: dict[str, int] = next((rank.sizes for rank in self.ranks if rank.sizes), {})
        return widths_of(sizes) or [4, 8, 1]

    def is_own_network(self) -> bool:
        """Whether a plain network has the parameters of the job, by name and size."""
        return any(widths_of(rank.sizes) for rank in self.ranks)


def widths_of(sizes: dict[str, int]) -> list[int]:
    """[8, 16, 1] of 0.weight: 128, 0.bias: 16, 2.weight: 16, 2.bias: 1; empty for another network."""
    widths: list[int] = []
    for layer in range(0, 2 * len(sizes), 2):
        weight, bias = sizes.get(f"{layer}.weight"), sizes.get(f"{layer}.bias")
        if weight is None or not bias or weight % bias:
            break
        if widths and widths[-1] != weight // bias:
            return []
        widths += [bias] if widths else [weight // bias, bias]
    return widths if widths and len(sizes) == 2 * (len(widths) - 1) else []


def read(folder: Path) -> Facts:
    """Reads the files of a folder that check() has accepted."""
    ranks: dict[int, RankFacts] = {}
    title = ""
    n_ranks = 0
    for path in sorted(folder.glob("*.jsonl")):
        lines = path.read_text(encoding="utf-8").splitlines()
        header = json.loads(lines[0])
        title = title or header.get("scenario", "")
        n_ranks = max(n_ranks, header["ranks"])
        by_rank: dict[int, list[Event]] = defaultdict(list)
        for line in lines[1:]:
            try:
                event = json.loads(line)
            except ValueError:  # The last line of a rank that was killed.
                break
            by_rank[event["rank"]].append(event)
        for rank, events in by_rank.items():
            if rank not in ranks:  # Later attempts repeat the first one.
                ranks[rank] = _facts_of(rank, events)
    return Facts(title, [ranks.get(rank, RankFacts(rank)) for rank in range(n_ranks)])


def _facts_of(rank: int, events: Iterable[Event]) -> RankFacts:
    facts = RankFacts(rank)
    after = ""
    micro = 0
    for event in events:
        kind = event["kind"]
        if kind == "collective":
            _take_call(facts, event, after)
        elif kind == "group":
            facts.groups[event["group"]] = event["members"]
        elif kind == "sample" and event.get("split", "train") == "train":
            facts.samples.append(len(event["ids"]))
        elif kind == "grad":
            facts.sizes.update(zip(event["names"], event["n_elems"], strict=False))
        elif kind == "forward" and event.get("grad", True) and event.get("training", True):
            facts.forwards.append(event)
            micro += 1
        elif kind == "step":
            facts.steps.append(event)
            facts.accumulate, micro = max(facts.accumulate, micro), 0
        elif kind in KEPT:
            getattr(facts, KEPT[kind]).append(event)
        if kind in ("forward", "backward", "step"):
            after = kind
    return facts


KEPT = {"clip": "clips", "batch": "batches", "epoch": "epochs", "options": "options", "wrap": "wraps"}


def _take_call(facts: RankFacts, event: Event, after: str) -> None:
    if event["phase"] == "posted":
        facts.calls.append(Call(
            op=event["op"], group=event["group"], seq=event["seq"], dtype=event["dtype"],
            count=event["count"], root=event["root"], peer=event["peer"], tag=event["tag"],
            reduce=event["reduce"], site=event["site"], step=event["at"][4], after=after))
        return
    if event["phase"] != "completed":
        return
    for i, call in enumerate(facts.calls):
        same = (call.op, call.group, call.seq, call.peer) == (
            event["op"], event["group"], event["seq"], event["peer"])
        if same and not call.completed:
            facts.calls[i] = replace(call, completed=True)
            return
