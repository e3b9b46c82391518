"""A small training job that is broken in one way: a scenario, and the script of the same job."""
from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from lockstep.reproduce.quoting import quoted

if TYPE_CHECKING:
    from lockstep.reproduce.facts import Facts
    from lockstep.reproduce.recipes import Recipe

MOST_STEPS = 200

SCRIPT = '''\
import contextlib
{imports}
import lockstep
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import {data_imports}
from torch.utils.data.distributed import DistributedSampler

STEPS, ACCUMULATE = {steps}, {accumulate}
{definitions}

def batches(rank):
    inputs = torch.randn({size}, {features})
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True).expand(-1, {outputs}))
    {sampler}
    loader = DataLoader(data, batch_size={batch}{loading})
    for epoch in range(STEPS * ACCUMULATE + 2):
        {set_epoch}
        yield from loader


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(3)
    say = lockstep.annotate()
    model = nn.Sequential({layers})
    wrapper = DistributedDataParallel(model{ddp})
    {after_wrap}
    optimizer = torch.optim.SGD(wrapper.parameters(), lr={lr})
    source = batches(rank)
    for step in range(STEPS):
        {zero_grad}
        for micro in range(ACCUMULATE):
            x, y = next(source)
            {declare}
            quiet = ({no_sync}) and micro + 1 < ACCUMULATE
            with wrapper.no_sync() if quiet else contextlib.nullcontext():
                loss = nn.functional.mse_loss({forward}, y)
                loss.backward()
        {before_step}
        {step}
        {after_step}
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
'''


def n_steps(facts: Facts, recipe: Recipe) -> int:
    return min(MOST_STEPS, max(recipe.steps, min(facts.n_steps(), recipe.steps + 3), 1))


def toml(facts: Facts, recipe: Recipe) -> list[str]:
    """The lines of a scenario below its title."""
    widths = facts.widths()
    rates = [rate for rate in facts.rates() if rate]
    momentum = facts.option("momentum", 0.0)
    values = {
        "model": f'kind = "mlp", widths = [{", ".join(map(str, widths))}], '
                 'init = { kind = "pytorch", seed = 3 }',
        "size": str(facts.dataset_size()),
        "data": "",
        "loader": f"batch = {facts.batch()}, shuffle = true",
        "loss": 'kind = "mse"',
        "loop": f"steps = {n_steps(facts, recipe)}"} | recipe.values
    return [f"world = {{ ranks = {facts.n} }}",
            f"model = {{ {values['model']} }}",
            f'data = {{ kind = "synthetic", size = {values["size"]}, features = {widths[0]}, '
            f"outputs = {widths[-1]}{values['data']} }}",
            f"loader = {{ {values['loader']} }}",
            f"loss = {{ {values['loss']} }}",
            f'optimizer = {{ kind = "sgd", lr = {rates[0] if rates else 0.125!r}, momentum = {momentum!r} }}',
            f"loop = {{ {values['loop']} }}", *recipe.toml]


def script(facts: Facts, recipe: Recipe) -> str:
    """The same job for PyTorch's ranks."""
    widths = facts.widths()
    rates = [rate for rate in facts.rates() if rate]
    layers = []
    for i, (n_in, n_out) in enumerate(zip(widths, widths[1:], strict=False)):
        layers.append(f"nn.Linear({n_in}, {n_out})")
        if i + 2 < len(widths):
            layers += [f"nn.BatchNorm1d({n_out})"] if "batch_norm" in recipe.python else []
            layers.append("nn.ReLU()")
            layers += ["nn.Dropout(0.25)"] if "dropout" in recipe.python else []
    python = recipe.python
    def at(indent: int, name: str, healthy: str) -> str:
        return textwrap.indent(python.get(name, healthy), " " * indent).lstrip()

    declare = f'say.batch(len(x), declared={quoted(python["declared"])})' if "declared" in python else "pass"
    if "batch" in python:
        n = python["batch"]
        declare = f"x, y = x[:{n}], y[:{n}]\n            {declare}"
    loads = {"DataLoader", "TensorDataset", *python.get("data_imports", "").split()}
    batch = max([recipe.batch, facts.batch(), *(n for r in facts.ranks for n in facts.batches_of(r))])
    return SCRIPT.format(
        steps=n_steps(facts, recipe), accumulate=python.get("accumulate", "1"),
        size=max(facts.dataset_size(), 2 * facts.n * max(recipe.batch, facts.batch())), features=widths[0], outputs=widths[-1],
        imports=python.get("imports", ""), data_imports=", ".join(sorted(loads)),
        batch=batch, definitions=python.get("definitions", ""),
        loading=python.get("loading", ", sampler=sampler"),
        sampler=at(4, "sampler", "sampler = DistributedSampler(data, shuffle=True)"),
        set_epoch=at(8, "set_epoch", "sampler.set_epoch(epoch)"), layers=", ".join(layers),
        ddp=python.get("ddp", ""), after_wrap=at(4, "after_wrap", "pass"),
        lr=python.get("lr", repr(rates[0] if rates else 0.125)),
        zero_grad=at(8, "zero_grad", "optimizer.zero_grad()"), declare=declare,
        no_sync=python.get("no_sync", "False"), forward=python.get("forward", "wrapper(x)"),
        before_step=at(8, "before_step", "pass"), step=at(8, "step", "optimizer.step()"),
        after_step=at(8, "after_step", "pass"))
