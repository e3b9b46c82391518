#!/usr/bin/env python3
"""Breaks DDP on purpose, one defect at a time, and checks that the tests notice.

Usage: tests/mutation/run.py [--only TEXT] [--commit REVISION] [--first] [--programs A,B] [--record]
Works on a copy of the sources under build-mutation/, never on the tree itself. Each defect of
mutations.py is applied to the copy, the suite is built and run, and the defect must make a test fail
(or the build break, which is reported as such and does not count). Exit code 0 iff every defect was
caught; the table of who caught what is written to tests/mutation/RESULTS.md with --record.
"""
import argparse
import re
import shutil
import subprocess
import sys

from copied_tree import BUILD, ROOT, TREE, files_of, run, sync
from mutations import MUTATIONS

# Cheap suites first: the first failing test names the catcher.
PROGRAMS = ["ddp_test", "comm_test", "reducer_test", "reducer_property", "data_test",
            "harness_run_test", "harness_run_property"]


def build(programs):
    if not (BUILD / "build.ninja").exists():
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        made = run(["cmake", "-S", TREE, "-B", BUILD, "-G", "Ninja", "-DLOCKSTEP_GPU=OFF",
                    "-DCMAKE_UNITY_BUILD=OFF", *launcher])
        if made.returncode != 0:
            sys.exit(made.stdout + made.stderr)
    return run(["ninja", "-C", BUILD, *programs])


def program_path(name):
    found = [path for path in BUILD.rglob(name) if path.is_file()]
    return found[0]


def first_failures(programs):
    """The first failing test of each program; programs that pass are absent."""
    failed = {}
    for name in programs:
        try:
            done = run([program_path(name), "--gtest_brief=1", "--gtest_fail_fast"], timeout=120,
                       cwd=BUILD, env={"RC_PARAMS": "seed=1", "PATH": "/usr/bin:/bin"})
        except subprocess.TimeoutExpired:
            failed[name] = "(did not end)"
            continue
        if done.returncode != 0:
            test = re.search(r"\[  FAILED  \] ([\w./]+)", done.stdout)
            failed[name] = test.group(1) if test else f"(exit {done.returncode})"
    return failed


def try_mutation(file, before, after, rounds):
    """What caught the defect by program, or a text that says why it could not be tried.

    `rounds` are lists of programs; those after a round that catches it are neither built nor run."""
    path = TREE / file
    original = path.read_text(encoding="utf-8")
    if original.count(before) < 1:
        return "STALE: the text is not there any more"
    path.write_text(original.replace(before, after, 1), encoding="utf-8")
    try:
        caught = {}
        for programs in rounds:
            built = build(programs)
            if built.returncode != 0:
                return "DOES NOT BUILD: " + built.stdout[-400:]
            caught |= first_failures(programs)
            if caught:
                break
        return caught
    finally:
        path.write_text(original, encoding="utf-8")


def write_results(rows):
    """Rows of mutations that were not tried this time stay as they were."""
    results = ROOT / "tests/mutation/RESULTS.md"
    columns = " | ".join(PROGRAMS)
    known = {line.split(" | ")[0].removeprefix("| "): line
             for line in results.read_text(encoding="utf-8").splitlines()
             if line.startswith("| ") and line.count("|") == len(PROGRAMS) + 3}
    for name, file, caught in rows:
        cells = " | ".join(caught.get(p, "-") for p in PROGRAMS)
        known[name] = f"| {name} | `{file}` | {cells} |"
    table = "".join(known[name] + "\n" for name, *_ in MUTATIONS if name in known)
    results.write_text(
        "# Deliberate defects and the tests that caught them\n\n"
        "Made by `tests/mutation/run.py --record`: the first failing test of each test program, with\n"
        "RapidCheck's seed pinned to 1. `harness_run_property` is the property suite over random worlds\n"
        "(tests/harness/run/ddp_property.cc); a dash means that program does not look there, or was not asked\n"
        "because one to its left had noticed (`--first`).\n\n"
        f"| defect | file | {columns} |\n|---|---|{'---|' * len(PROGRAMS)}\n{table}",
        encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="run mutations whose name contains this")
    parser.add_argument("--record", action="store_true", help="write RESULTS.md")
    parser.add_argument("--commit", help="break this commit, not the working tree")
    parser.add_argument("--first", action="store_true",
                        help="stop at the first program that catches a defect")
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="ask these alone")
    args = parser.parse_args()
    programs = args.programs.split(",")
    sync(files_of(args.commit) if args.commit else ROOT)
    built = build(programs)
    if built.returncode != 0:
        sys.exit(built.stdout)
    if healthy := first_failures(programs):
        sys.exit(f"the suite fails without any mutation: {healthy}")
    rounds = [[name] for name in programs] if args.first else [programs]
    rows, missed = [], 0
    for name, file, before, after in MUTATIONS:
        if args.only not in name:
            continue
        caught = try_mutation(file, before, after, rounds)
        bad = isinstance(caught, str) or not caught
        missed += bad
        by = caught if isinstance(caught, str) else ", ".join(caught.values()) or "NOT CAUGHT"
        print(f"{'MISSED' if bad else 'caught'}  {name}: {by}", flush=True)
        rows.append((name, file, {} if isinstance(caught, str) else caught))
    print(f"{len(rows) - missed} of {len(rows)} caught")
    if args.record:
        write_results(rows)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
