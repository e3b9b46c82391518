#!/usr/bin/env python3
"""Counts what each kind of event costs the tiny network, in instructions: no clock, no other load.

  instructions.py [BIN]     BIN: the folder of cost_bench (default: build/bin); needs valgrind

A row is what one step of 32 ranks, or one job of 4 ranks and 3 steps, executes in the functions that record
events of one kind: building them, their place in the trace digests, and the laws that read them. Two
runs of different length are subtracted, so nothing of the start is in it. Functions that the compiler
inlines count to their callers.
"""
from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

# Name, and the functions whose inclusive costs are added. None contains another.
ROWS: list[tuple[str, list[str]]] = [
    ("losses", [r"::note\(lockstep::Tensor const&"]),
    ("cleared gradients", [r"StepRecord::record_cleared\("]),
    ("options of optimizers", [r"StepRecord::record_options\(", r"StepRecord::has_news\("]),
    ("tensors kept equal by the program", [r"Recorder::record_auxiliary\("]),
    ("environment", [r"^lockstep::record_environment\("]),
    ("wrapping, and the model's schema", [r"WrapperTrace::record_wrap\(", r"schema_of\("]),
    ("law accumulated-once", [r"AccumulatedOnce::(on_cohort|finish|~)", r"make_accumulated_once\("]),
    ("law norm-true", [r"NormTrue::(on_cohort|finish|~)", r"make_norm_true\("]),
    ("law outer-step", [r"OuterStep::(on_cohort|finish|~)", r"make_outer_step\("]),
    ("law trained-set", [r"TrainedSet::(on_cohort|finish|~)", r"make_trained_set\("]),
    ("all gradients", [r"GradientTrace::flush\(", r"^lockstep::Recorder::record_grads\("]),
    ("all states", [r"^lockstep::Recorder::record_states\("]),
    ("all collectives", [r"ProcessGroup::record_(posted|completed)\("]),
    ("making, ending and dropping all laws", [r"^lockstep::LawSet::(make|finish|~LawSet)\("]),
]
TOTAL = "PROGRAM TOTALS"


def counts(program: Path, what: str, n: int) -> dict[str, int]:
    """Inclusive instructions by function; those of a recursion are added."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind.out"
        subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", str(program), what, str(n)],
                       check=True, stderr=subprocess.DEVNULL)
        listing = subprocess.run(["callgrind_annotate", "--threshold=100", "--inclusive=yes", str(out)],
                                 check=True, capture_output=True, text=True).stdout
    found: dict[str, int] = {}
    for line in listing.splitlines():
        row = re.match(r"\s*([\d,]+) \(\s*[\d.]+%\)\s+(?:\S*?:)?(.*?)(?: \[[^\]]*\])?$", line)
        if row is None:
            continue
        name = re.sub(r"'\d+$", "", row[2])
        found[name] = found.get(name, 0) + int(row[1].replace(",", ""))
    return found


def per_unit(program: Path, what: str, few: int, many: int) -> dict[str, float]:
    low, high = counts(program, what, few), counts(program, what, many)
    return {name: (high[name] - low.get(name, 0)) / (many - few) for name in high}


def require_counted(costs: dict[str, float]) -> None:
    """A row that counts nothing says that the compiler has inlined its functions, not that they cost nothing."""
    gone = [name for name, patterns in ROWS if cost_of(patterns, costs) == 0]
    if gone:
        sys.exit("instructions.py: nothing is counted for " + ", ".join(gone) + ": no function of this row is called")


def cost_of(patterns: list[str], costs: dict[str, float]) -> float:
    total = sum(cost for name, cost in costs.items() if any(re.search(p, name) for p in patterns))
    return max(total, 0.0)  # What is done once differs by a few between two counts.


def main(arguments: list[str]) -> None:
    program = Path(arguments[0] if arguments else "build/bin") / "cost_bench"
    step = per_unit(program, "step", 20, 60)
    bare = per_unit(program, "bare", 20, 60)
    job = per_unit(program, "job", 20, 120)
    require_counted(job)
    print("| of one kind | a checked step of 32 ranks | of it | of a bare step | a job of 4 ranks, 3 steps | of it |")
    print("|---|---|---|---|---|---|")
    for name, patterns in ROWS:
        in_step, in_job = cost_of(patterns, step), cost_of(patterns, job)
        print(f"| {name} | {in_step:,.0f} | {in_step / step[TOTAL]:.2%} | {in_step / bare[TOTAL]:.2%} "
              f"| {in_job:,.0f} | {in_job / job[TOTAL]:.2%} |")
    print(f"| everything | {step[TOTAL]:,.0f} | | {step[TOTAL] / bare[TOTAL]:.0%} | {job[TOTAL]:,.0f} | |")


if __name__ == "__main__":
    main(sys.argv[1:])
