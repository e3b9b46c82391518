"""The PyTorch program of a scenario: a plain script, as one writes it by hand."""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockstep.crosscheck.scenario import Job

SCRIPT = '''\
"""Written by `lockstep crosscheck --against torch`."""
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

DTYPE = torch.{dtype}
ROWS = {rows}
STEPS, EPOCHS, ACCUMULATE = {steps}, {epochs}, {accumulate}


class OnGrid(torch.optim.SGD):
    """Parameters and momenta are multiples of 2^-{grid}: the one rounding of an exact job."""

    @torch.no_grad()
    def step(self, closure=None):
        super().step(closure)
        for group in self.param_groups:
            for p in group["params"]:
                momentum = self.state[p].get("momentum_buffer")
                for tensor in (p, *([] if momentum is None else [momentum])):
                    tensor.copy_(torch.clamp(torch.round(tensor * 2**{grid}) / 2**{grid}, -{clamp}, {clamp}))


def initialise(model):
    {init}


def main():
    dist.init_process_group("gloo")
    model = {model}.to(DTYPE)
    initialise(model)
    for p in model.parameters():  # Products of the simulator add to 0, those of one row here may be -0.
        p.register_hook(lambda grad: grad + 0.0)
    model = DistributedDataParallel(model{ddp})
    optimizer = OnGrid(model.parameters(), {sgd})
    data = TensorDataset(*(torch.tensor([row[i] for row in ROWS], dtype=DTYPE) for i in (0, 1)))
    sampler = {sampler}
    loader = DataLoader(data, batch_size={batch}, sampler=sampler)
    step = epoch = 0
    while step < STEPS or (not STEPS and epoch < EPOCHS):
        {set_epoch}
        for micro, (x, y) in enumerate(loader):
            if micro % ACCUMULATE == 0:
                if STEPS and step == STEPS:
                    break
                optimizer.zero_grad(set_to_none={to_none})
            last = (micro + 1) % ACCUMULATE == 0
            with model.no_sync() if {no_sync} and not last else contextlib.nullcontext():
                nn.functional.{loss}(model(x), y).backward()
            if last:
                optimizer.step()
                step += 1
        epoch += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
'''
_INITS = {
    "constant": "for p in model.parameters():\n        nn.init.constant_(p, {value!r})",
    "grid": "generator = torch.Generator().manual_seed({seed})\n"
            "    for p in model.parameters():\n"
            "        points = torch.randint(-2**{grid}, 2**{grid} + 1, p.shape, generator=generator)\n"
            "        p.data.copy_(points / 2**{grid})"}


def script(job: Job) -> str:
    layers = []
    for number, (n_in, n_out) in enumerate(zip(job.widths, job.widths[1:])):
        layers.append(f"nn.Linear({n_in}, {n_out}, bias={job.bias})")
        if job.activation == "relu" and number + 2 < len(job.widths):
            layers.append("nn.ReLU()")
    model = layers[0] if job.kind != "mlp" else f"nn.Sequential({', '.join(layers)})"
    init = {"value": 0.0, "seed": 0, "grid": 3, **job.init}
    sampler = "None" if job.sampler == "sequential" else \
        f"DistributedSampler(data, shuffle={job.shuffle}, seed={job.seed}, drop_last={job.drop_last})"
    return SCRIPT.format(
        dtype={"f64": "float64", "f32": "float32"}[job.exact.dtype], rows=[[list(x), list(y)] for x, y in job.rows],
        steps=job.steps, epochs=job.epochs, accumulate=job.accumulate, grid=job.exact.grid, clamp=job.exact.clamp,
        init=_INITS[job.init["kind"]].format(**init), model=model,
        ddp="".join(f", {key}={value!r}" for key, value in job.ddp.items()),
        sgd=", ".join(f"{key}={value!r}" for key, value in job.sgd.items()), sampler=sampler, batch=job.batch,
        set_epoch="sampler.set_epoch(epoch)" if job.set_epoch and job.sampler == "distributed" else "pass",
        to_none=job.zero_grad == "none", no_sync=job.no_sync, loss={"mse": "mse_loss", "l1": "l1_loss"}[job.loss])
