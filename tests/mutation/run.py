#!/usr/bin/env python3
"""Breaks DDP on purpose, one defect at a time, and checks that the tests notice.

Usage: tests/mutation/run.py [--only TEXT] [--commit REVISION] [--first] [--programs A,B] [--timeout SECONDS]
                             [--record]
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
NOT_RUN, NEVER_RUN = "not run since", "never run"
RESULTS = ROOT / "tests/mutation/RESULTS.md"


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


def first_failures(programs, timeout_s):
    """The first failing test of each program; programs that pass are absent."""
    failed = {}
    for name in programs:
        try:
            done = run([program_path(name), "--gtest_brief=1", "--gtest_fail_fast"], timeout=timeout_s,
                       cwd=BUILD, env={"RC_PARAMS": "seed=1", "PATH": "/usr/bin:/bin"})
        except subprocess.TimeoutExpired:
            failed[name] = "(did not end)"
            continue
        if done.returncode != 0:
            test = re.search(r"\[  FAILED  \] ([\w./]+)", done.stdout)
            failed[name] = test.group(1) if test else f"(exit {done.returncode})"
    return failed


def try_mutation(file, before, after, rounds, timeout_s):
    """What caught the defect by program, or a text that says why it could not be tried.

    `rounds` are lists of programs; those after a round that catches it are neither built nor run."""
    path = TREE / file
    original = path.read_text(encoding="utf-8")
    if original.count(before) != 1:
        return f"STALE: the text occurs {original.count(before)} times"
    path.write_text(original.replace(before, after), encoding="utf-8")
    try:
        caught = {}
        for programs in rounds:
            built = build(programs)
            if built.returncode != 0:
                return "DOES NOT BUILD: " + built.stdout[-400:]
            caught |= first_failures(programs, timeout_s)
            if caught:
                break
        return caught
    finally:
        path.write_text(original, encoding="utf-8")


def commit_of(revision):
    """A commit and its date."""
    return run(["git", "-C", ROOT, "show", "--no-patch", "--format=%h (%cs)", revision or "HEAD"]).stdout.strip()


def not_run_again(row, file):
    """A row of an earlier run, which says so. `file`: where the defect would be planted now."""
    cells = row.split(" | ")
    cells[1] = f"`{file}`"
    if not cells[2].startswith((NOT_RUN, NEVER_RUN)):
        cells[2] = f"{NOT_RUN} {cells[2]}"
    return " | ".join(cells)


def row_of(name, file, said, caught):
    return " | ".join([f"| {name}", f"`{file}`", said, *(caught.get(program, "-") for program in PROGRAMS)]) + " |"


def page_of(tried, commit, before):
    """The new page. `tried`: the catchers by program, by defect; rows of `before` are kept for all other defects."""
    columns = " | ".join(PROGRAMS)
    known = {line.split(" | ")[0].removeprefix("| "): line for line in before.splitlines()
             if line.startswith("| ") and line.count("|") == len(PROGRAMS) + 4 and not line.startswith("| defect |")}
    rows = []
    for name, file, *_ in MUTATIONS:
        if name in tried:
            said = commit if tried[name] else f"{commit}, NOT CAUGHT"
            rows.append(row_of(name, file, said, tried[name]))
        elif name in known:
            rows.append(not_run_again(known[name], file))
        else:
            rows.append(row_of(name, file, NEVER_RUN, {}))
    return (
        "# Deliberate defects and the tests that caught them\n\n"
        "Made by `tests/mutation/run.py --record`: the commit at which a defect was tried, and the first failing test of\n"
        "each test program, with RapidCheck's seed pinned to 1. `harness_run_property` is the property suite over random\n"
        "worlds (tests/harness/run/ddp_property.cc). A dash means that the program does not notice, or was not asked\n"
        "because one to its left had noticed (`--first`). A row that says \"not run since\" is of that commit: its text in\n"
        "the sources may have changed since, and tests may have other names now.\n\n"
        f"| defect | file | tried at | {columns} |\n|---|---|---|{'---|' * len(PROGRAMS)}\n" + "".join(f"{row}\n" for row in rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="run mutations whose name contains this")
    parser.add_argument("--record", action="store_true", help="write RESULTS.md")
    parser.add_argument("--commit", help="break this commit, not the working tree")
    parser.add_argument("--first", action="store_true",
                        help="stop at the first program that catches a defect")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds that a program may take")
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="ask these alone")
    args = parser.parse_args()
    programs = args.programs.split(",")
    sync(files_of(args.commit) if args.commit else ROOT)
    built = build(programs)
    if built.returncode != 0:
        sys.exit(built.stdout)
    if healthy := first_failures(programs, args.timeout):
        sys.exit(f"the suite fails without any mutation: {healthy}")
    rounds = [[name] for name in programs] if args.first else [programs]
    tried, missed, asked = {}, 0, 0
    for name, file, before, after in MUTATIONS:
        if args.only not in name:
            continue
        asked += 1
        caught = try_mutation(file, before, after, rounds, args.timeout)
        bad = isinstance(caught, str) or not caught
        missed += bad
        by = caught if isinstance(caught, str) else ", ".join(caught.values()) or "NOT CAUGHT"
        print(f"{'MISSED' if bad else 'caught'}  {name}: {by}", flush=True)
        if not isinstance(caught, str):
            tried[name] = caught
        if args.record:  # After each: a run may be ended.
            page = RESULTS.read_text(encoding="utf-8")
            RESULTS.write_text(page_of(tried, commit_of(args.commit), page), encoding="utf-8")
    print(f"{asked - missed} of {asked} caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
