"""Runs scripts as virtual ranks, forked from this process: PyTorch is imported once for all tests."""
from __future__ import annotations

import functools
from pathlib import Path

from lockstep.virtual import launch, options, zygote
from lockstep.virtual.launch import Outcome

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
ARENA = ("--arena-mb", "512")


@functools.cache
def prepare() -> None:
    zygote.prepare()


def run_virtual(script: Path, ranks: int, *given: str, trace: Path | None = None,
                arguments: tuple[str, ...] = ()) -> Outcome:
    """What `lockstep torchrun --nproc-per-node RANKS GIVEN... SCRIPT ARGUMENTS...` finds."""
    prepare()
    parsed = options.parse(["--nproc-per-node", str(ranks), *ARENA, *given, str(script), *arguments])
    return launch.run(parsed, parsed.seed, str(trace) if trace is not None else "", quiet=True)


def printed(outcome: Outcome) -> str:
    return "\n".join(f"[{rank}] {line}" for rank, line in outcome.lines)


def lines_of(outcome: Outcome, beginning: str) -> list[str]:
    """What ranks printed that begins so, sorted."""
    return sorted(line for _, line in outcome.lines if line.startswith(beginning))


def write(folder: Path, text: str) -> Path:
    script = folder / "job.py"
    script.write_text(text)
    return script
