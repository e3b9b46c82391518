"""`lockstep crosscheck SCENARIO --against torch`: the same job, by our own DDP on simulated ranks and by PyTorch's on virtual
ranks, every digest compared.

    scenario.py   what such a scenario may hold
    program.py    the PyTorch program that it is
    states.py     what two traces say of parameters, gradients and optimizers
"""
from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.crosscheck import program, scenario, states
from lockstep.native import command
from lockstep.terminal import say, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

EQUAL, DIFFERENT, USAGE, FAILED = 0, 1, 2, 3

ABOUT = f"""\
Runs a scenario on simulated ranks, and the PyTorch program of the same job on virtual ranks; compares every digest of
parameters, gradients, momenta and samples, bit for bit.

A scenario may hold {scenario.HOLDS}.
exact and model.init are required."""


def is_meant(arguments: Sequence[str]) -> bool:
    """Whether a command line is for this command, not for the native one."""
    words = list(arguments)
    return "--against=torch" in words or ("--against", "torch") in zip(words, words[1:])


def main(arguments: Sequence[str]) -> int:
    """Returns: 0 = equal, 1 = different, 2 = a scenario that is not understood or not written for PyTorch, 3 = a run failed."""
    parser = argparse.ArgumentParser("lockstep crosscheck", description=ABOUT,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, metavar="SCENARIO")
    parser.add_argument("--against", required=True, metavar="torch")
    parser.add_argument("--variant", default="", metavar="NAME")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    parser.add_argument("--trace", default="", metavar="DIR", help="keeps both traces, in DIR/sim and DIR/torch")
    parser.add_argument("--write", default="", metavar="FILE", help="keeps the PyTorch program")
    given = parser.parse_args(list(arguments))
    with tempfile.TemporaryDirectory(prefix="lockstep-") as scratch:
        folder = Path(given.trace or scratch)
        if given.trace and folder.exists() and any(folder.iterdir()):
            return _say(f"{given.trace}: is not empty", USAGE)
        return _crosscheck(given, folder, Path(given.write or Path(scratch) / "program.py"))


def _crosscheck(given: argparse.Namespace, folder: Path, script: Path) -> int:
    code = _simulate(given, folder / "sim")
    if code:
        return code
    try:
        job = scenario.load(given.file, given.variant, given.settings)
    except scenario.NotTranslated as refused:
        return _say(f"{given.file}: {refused}", USAGE)
    script.write_text(program.script(job), encoding="utf-8")
    problem = run_torch(script, job.ranks, folder / "torch")
    if problem:
        return _say(f"the PyTorch program failed: {problem}", FAILED)
    compared = states.compare(folder / "sim", folder / "torch")
    say(compared.text(job.ranks))
    return EQUAL if compared.equal else DIFFERENT


def _simulate(given: argparse.Namespace, trace: Path) -> int:
    words = [command(), "run", str(given.file), "--quiet", "--trace", str(trace), "--set", "sim.order=gloo-ring"]
    words += ["--variant", given.variant] if given.variant else []
    for setting in given.settings:
        words += ["--set", setting]
    code = subprocess.run(words, stdout=subprocess.DEVNULL).returncode
    return code if code not in (EQUAL, DIFFERENT) else 0  # Laws are not what is asked here.


def run_torch(script: Path, ranks: int, trace: Path) -> str:
    """Runs a program on virtual ranks. Returns: what went wrong; "" for nothing."""
    from lockstep.virtual import launch, options, zygote

    zygote.prepare()
    given = options.parse(["--nproc-per-node", str(ranks), str(script)])
    outcome = launch.run(given, given.seed, str(trace), quiet=True)
    if outcome.found["outcome"] == "ok":
        return ""
    return "\n".join([outcome.found["error"] or outcome.found["wait_for"], *(line for _, line in outcome.lines[-6:])])


def _say(problem: str, code: int) -> int:
    warn(f"lockstep crosscheck: {problem}")
    return code
