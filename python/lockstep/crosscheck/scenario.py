"""Scenarios that have a PyTorch program: what such a scenario may hold, and a sentence for all else."""
from __future__ import annotations

import copy
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

Table = dict[str, Any]


class NotTranslated(Exception):
    """The scenario holds something that is not written as a PyTorch program; the message says what."""


@dataclass(frozen=True)
class Exact:
    """After each step, parameters and momenta are rounded to multiples of 2^-grid in [-clamp, clamp]."""

    grid: int
    clamp: float
    dtype: str


@dataclass(frozen=True)
class Job:
    """A scenario with all that it leaves out."""

    ranks: int
    exact: Exact
    kind: str  # "scalar", "linear", "mlp"
    widths: tuple[int, ...]
    activation: str
    bias: bool
    init: Table
    rows: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]
    batch: int
    sampler: str
    shuffle: bool
    seed: int
    set_epoch: bool
    drop_last: bool
    loss: str
    sgd: Table = field(default_factory=dict)
    steps: int = 0  # 0: `epochs` decides.
    epochs: int = 1
    accumulate: int = 1
    no_sync: bool = False
    zero_grad: str = "none"
    ddp: Table = field(default_factory=dict)


def _one_of(*words: str) -> Callable[[Any], bool]:
    return lambda value: value in words


def _number(value: Any) -> bool:
    return isinstance(value, (int, float))


# What each section may hold. Sections that change nothing of what a job computes may hold anything.
_FREE = ("format", "title", "origin", "compat", "expect", "policy", "sim", "values")
_MAY: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    "world": {"ranks": _number, "seed": _number},
    "exact": {"grid": _number, "clamp": _number, "dtype": _one_of("f64", "f32")},
    "model": {"kind": _one_of("scalar", "linear", "mlp"), "widths": lambda value: True, "in": _number, "out": _number,
              "activation": _one_of("relu", "none"), "bias": lambda value: True, "dtype": _one_of("f64", "f32"),
              "init": lambda value: True},
    "data": {"kind": _one_of("inline"), "rows": lambda value: True},
    "loader": {"batch": _number, "sampler": _one_of("distributed", "sequential"), "shuffle": lambda value: True,
               "seed": _number, "set_epoch": lambda value: True, "drop_last": lambda value: True},
    "loss": {"kind": _one_of("mse", "l1"), "normalize": _one_of("local-samples"), "declared": lambda value: True},
    "optimizer": {"kind": _one_of("sgd"), "lr": _number, "momentum": _number, "dampening": _number, "weight_decay": _number,
                  "nesterov": lambda value: True, "maximize": lambda value: True},
    "loop": {"steps": _number, "epochs": _number, "accumulate": _number, "no_sync": lambda value: True,
             "zero_grad": _one_of("none", "zero")},
    "ddp": {"broadcast_buffers": lambda value: True, "bucket_cap_mb": _number, "find_unused_parameters": lambda value: True,
            "gradient_as_bucket_view": lambda value: True, "static_graph": lambda value: True}}
_INIT = {"kind": _one_of("constant", "grid"), "value": _number, "seed": _number, "grid": _number}
HOLDS = "; ".join(f"{section}: {', '.join(keys)}" for section, keys in _MAY.items())


def _require(section: str, table: Table, may: Mapping[str, Callable[[Any], bool]]) -> None:
    for key, value in table.items():
        if key not in may:
            raise NotTranslated(f"{section}.{key} is not written as a PyTorch program; {section} may hold "
                                f"{', '.join(may)}")
        if not may[key](value):
            raise NotTranslated(f"{section}.{key} = {value!r} is not written as a PyTorch program")


def load(path: Path, variant: str, settings: Sequence[str]) -> Job:
    """The job of a file that `lockstep run` has accepted.

    Raises:
        NotTranslated: the scenario holds something else.
    """
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    variants = table.pop("variant", {})
    if variant:
        _merge(table, copy.deepcopy(variants[variant]))
    for setting in settings:
        _set(table, setting)
    return _job(table)


def _merge(table: Table, changes: Table) -> None:
    for path in changes.pop("unset", []):
        *parents, last = path.split(".")
        at = table
        for name in parents:
            at = at.get(name, {})
        at.pop(last, None)
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(table.get(key), dict):
            _merge(table[key], value)
        else:
            table[key] = value


def _set(table: Table, setting: str) -> None:
    key, _, text = setting.partition("=")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *parents, last = key.split(".")
    for name in parents:
        table = table.setdefault(name, {})
    table[last] = value


def _job(table: Table) -> Job:
    for section, value in table.items():
        if section in _FREE:
            continue
        if section not in _MAY:
            raise NotTranslated(f"{section} is not written as a PyTorch program; a scenario may hold {', '.join(_MAY)}")
        _require(section, value, _MAY[section])
    if "exact" not in table:
        raise NotTranslated("exact is missing: where sums round, two programs need not agree in bits")
    model, data, loop = (table.get(name, {}) for name in ("model", "data", "loop"))
    init = model.get("init", {})
    _require("model.init", init, _INIT)
    if init.get("kind", "pytorch") == "pytorch":
        raise NotTranslated("model.init.kind is missing: constant and grid are exact")
    return _complete(table, model, init, _rows(data), loop)


def _rows(data: Table) -> tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]:
    rows = []
    for row in data.get("rows", []):
        if set(row) != {"x", "y"}:
            raise NotTranslated(f"data.rows with {', '.join(row)} is not written as a PyTorch program; rows may hold x and y")
        rows.append((tuple(map(float, row["x"])), tuple(map(float, row["y"]))))
    if not rows:
        raise NotTranslated("data.rows is missing: rows are what a PyTorch program is given")
    return tuple(rows)


def _complete(table: Table, model: Table, init: Table, rows: Any, loop: Table) -> Job:
    exact, loader, ranks = table["exact"], table.get("loader", {}), int(table["world"]["ranks"])
    kind = model.get("kind", "mlp")
    widths = {"scalar": [1, 1], "linear": [model.get("in", 4), model.get("out", 1)]}.get(kind, model.get("widths", [4, 4, 1]))
    drop_last, share = loader.get("drop_last", False), -(-len(rows) // ranks)
    batch = int(loader.get("batch", share))
    accumulate = int(loop.get("accumulate", 1))
    sampler = loader.get("sampler", "distributed")
    n_batches = -(-(len(rows) if sampler == "sequential" else share) // batch)
    if n_batches % accumulate:
        raise NotTranslated(f"loop.accumulate = {accumulate} leaves batches of an epoch over: {n_batches} batches a rank")
    sgd = table.get("optimizer", {})
    return Job(
        ranks=ranks, exact=Exact(int(exact.get("grid", 4)), float(exact.get("clamp", 8)),
                                 model.get("dtype", exact.get("dtype", "f64"))),
        kind=kind, widths=tuple(map(int, widths)), activation=model.get("activation", "relu"), bias=model.get("bias", kind != "scalar"),
        init=init, rows=rows, batch=batch, sampler=sampler, shuffle=loader.get("shuffle", False),
        seed=int(loader.get("seed", 0)), set_epoch=loader.get("set_epoch", True), drop_last=drop_last,
        loss=table.get("loss", {}).get("kind", "mse"),
        sgd={"lr": 0.1, **{key: value for key, value in sgd.items() if key != "kind"}},
        steps=int(loop.get("steps", 0)), epochs=int(loop.get("epochs", 1)), accumulate=accumulate,
        no_sync=loop.get("no_sync", False), zero_grad=loop.get("zero_grad", "none"), ddp=table.get("ddp", {}))
