"""Words for a program: what it alone knows, said where it happens."""
from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lockstep.torch.annotations import AnnotationWriter

BUFFER_POLICIES = ("broadcast0", "mean", "synced", "local")
MEANINGS = ("sample-mean", "token-mean", "sum", "rank-mean")
ACTIONS = ("part", "save", "read", "load", "fresh", "fail")

BufferPolicy = Literal["broadcast0", "mean", "synced", "local"]
Meaning = Literal["sample-mean", "token-mean", "sum", "rank-mean"]
Action = Literal["part", "save", "read", "load", "fresh", "fail"]


def _require(what: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise ValueError(f"unknown {what} {given!r}: must be one of {', '.join(known)}")


class Annotations:
    """Everything a program can say about itself; `lockstep.annotate()` gives it.

    Each word belongs to the wrapper whose forward came last, so no step, epoch or wrapper is ever
    passed. Where nothing is recorded a word does nothing, and costs less than a microsecond.

    Words raise for arguments that they do not know (ValueError), recorded or not, and for nothing
    else.

        say = lockstep.annotate()
        say.batch(len(x), declared="sample-mean")
        say.replicated("ema", ema.parameters())
        say.decision("stop", patience == 0)
    """

    __slots__ = ()

    @property
    def on(self) -> bool:
        """Whether this rank is being recorded."""
        return _writer() is not None

    def epoch(self, epoch: int, *, split: str = "train", sampler: str = "distributed",
              dataset_size: int = 0, n_replicas: int = 1, per_rank: int = 0, shuffle: bool = False,
              drop_last: bool = False, pads: bool = False, generator_key: int = 0,
              order: Sequence[int] | None = None) -> None:
        """A pass over a sampler of your own begins (laws samples-covered, epoch-reshuffled).

        What is recorded from now on belongs to `epoch`, if the split is "train".

        Args:
            sampler: "distributed": all ranks share one order and read disjoint parts of it.
                "random", "sequential": this rank alone reads the whole set, each sample once. Another
                name: nothing is concluded from how often samples come.
            n_replicas: ranks that share the order. per_rank: samples each of them draws.
            pads: samples are repeated to make the ranks even.
            generator_key: what the shuffle was seeded with. order: the whole order, if known.
        """
        writer = _writer()
        if writer is not None:
            writer.epoch(epoch, split, sampler, generator_key, order, dataset_size, n_replicas,
                          per_rank, shuffle, drop_last, pads)

    def samples(self, ids: Iterable[int], split: str = "train") -> None:
        """Samples that a forward consumes, by ids that mean the same on all ranks and in all splits.

        From then on loaders of this rank record none by themselves.
        """
        writer = _writer()
        if writer is not None:
            writer.samples(ids, split)

    def batch(self, n_samples: int, *, n_tokens: int = 0, denominator: float | None = None,
              declared: Meaning = "sample-mean") -> None:
        """What this batch counts, and what the mean over ranks is meant to be (law gradient-mean).

        Said before the batch's backward, once for each.

        Args:
            denominator: of this rank's loss, in samples or tokens; 0 = unknown. Without it: the
                samples, or for "token-mean" the tokens.
            declared: "sample-mean" | "token-mean": over all samples or tokens of all ranks. "sum".
                "rank-mean": the mean of the ranks' means, which is what DDP computes.
        """
        _require("meaning", declared, MEANINGS)
        writer = _writer()
        if writer is not None:
            of_loss = n_tokens if declared == "token-mean" else n_samples
            writer.batch(n_samples, n_tokens, of_loss if denominator is None else denominator, declared)

    def metric(self, name: str, value: float, *, numerator: float = 0.0, denominator: float = 0.0,
               parts: Iterable[float] = ()) -> None:
        """A number that is reported to people (law metric-true).

        Args:
            numerator, denominator: value = numerator / denominator over all ranks; 0 = unknown.
            parts: what each sample of the evaluation on this rank is worth on its own.
        """
        writer = _writer()
        if writer is not None:
            writer.metric(name, value, numerator, denominator, parts)

    def decision(self, name: str, value: int) -> None:
        """A branch that may lead to collectives: stop, skip, save (law decisions-uniform)."""
        writer = _writer()
        if writer is not None:
            writer.decision(name, value)

    def stream(self, name: str, generator: Any, *, shared: bool = False, worker: int = -1) -> None:
        """`generator` is about to be drawn from (law rng-scopes). Once a pass is enough.

        Args:
            generator: a torch.Generator, or a tensor or bytes of its state.
            shared: all ranks are to draw the same; otherwise each its own.
            worker: the loader's worker that draws, -1 = the rank itself.
        """
        writer = _writer()
        if writer is not None:
            writer.stream(name, generator, shared, worker)

    def replicated(self, name: str, tensors: Iterable[Any] | Mapping[str, Any]) -> None:
        """Tensors that you keep equal on all ranks by yourself: moving averages, queues, target
        networks (law replicas-equal). They are looked at now, after optimizer steps, in evaluations
        and at the end, as parameters are. Naming them again replaces them.
        """
        writer = _writer()
        if writer is not None:
            writer.replicated(name, tensors)

    def buffers(self, names: Iterable[str], policy: BufferPolicy) -> None:
        """Which policy some buffers obey, whatever the wrapper does by default (law buffers-policy)."""
        _require("policy of buffers", policy, BUFFER_POLICIES)
        writer = _writer()
        if writer is not None:
            writer.buffers(names, policy)

    def configuration(self, subject: str, data: str) -> None:
        """Something that all ranks must have been given alike: the text of a configuration, a
        vocabulary, a list of files (law environment-bijective)."""
        writer = _writer()
        if writer is not None:
            writer.configuration(subject, data)

    def snapshot(self, action: Action, step: int, detail: str, digest: int = 0) -> None:
        """What became of a checkpoint that you write by yourself (law checkpoint-whole); the fields
        are those of a `snapshot` event (docs/trace_format.md)."""
        _require("action", action, ACTIONS)
        writer = _writer()
        if writer is not None:
            writer.snapshot(action, step, detail, digest)

    def log(self, text: str) -> None:
        """A line for people."""
        writer = _writer()
        if writer is not None:
            writer.log(text)


def _writer() -> AnnotationWriter | None:
    """The words' other end, where this process is being recorded."""
    seam = sys.modules.get("lockstep.torch")
    return seam.active_annotations() if seam is not None else None
