#!/usr/bin/env python3
"""Explores scenarios with the lockstep command, and repeats what it found in new processes.

The first argument is the command. Everything is written to a temporary folder.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ZOO = ROOT / "scenarios" / "zoo"

# Scenario -> the law that is found broken, and the most ranks of the reproduction.
CASES = {
    "bypass_wrapper": ("REPLICAS-EQUAL", 2),
    "overlap_race": ("IN-FLIGHT-UNTOUCHED", 2),
    # Of two ranks none is the odd one: the finding has another place.
    "rank0_only_collective": ("COLLECTIVES-MATCH", 3),
    "no_set_epoch": ("EPOCH-RESHUFFLED", 2),
}


class Checks:
    """Runs commands and counts what differs from what was expected."""

    def __init__(self, binary, folder):
        self.binary = binary
        self.folder = folder
        self.n_wrong = 0

    def run(self, expected, *words):
        """One command; its exit code must be `expected`. Returns its stdout."""
        done = subprocess.run([self.binary, *map(str, words)], cwd=self.folder, text=True,
                              capture_output=True, timeout=120, check=False,
                              env={**os.environ, "NO_COLOR": "1"})
        if done.returncode != expected:
            self.complain(f"{' '.join(map(str, words))}: exit code {done.returncode}, not {expected}",
                          done.stdout + done.stderr)
        return done.stdout

    def require(self, condition, what, text):
        """Counts a complaint unless `condition`."""
        if not condition:
            self.complain(what, text)

    def complain(self, what, text):
        """Counts and prints a complaint."""
        self.n_wrong += 1
        print(f"{what}\n{text}")


def check_found(checks, name, law, most_ranks):
    """A bug is found, written small, and repeated by other processes."""
    scenario = ZOO / f"{name}.toml"
    out = checks.folder / name
    text = checks.run(1, "explore", scenario, "--runs", 50, "--out", out)
    checks.require(f"(law {law})" in text, f"{name}: law {law} is not named", text)
    repro = (out / "repro.toml").read_text(encoding="utf-8")
    ranks = int(repro.split("ranks = ", 1)[1].split(" ", 1)[0])
    checks.require(ranks <= most_ranks, f"{name}: {ranks} ranks", repro)
    replayed = checks.run(1, "replay", out / "repro.toml")
    checks.require("reproduced: the same trace" in replayed, f"{name}: not repeated", replayed)
    checks.run(0, "test", out / "repro.toml")
    kept = list((out / "regressions").glob("*.toml"))
    checks.require(len(kept) == 1, f"{name}: {len(kept)} failures kept", text)
    for file in kept:
        checks.run(1, "replay", file)
    again = checks.run(1, "explore", scenario, "--runs", 50, "--out", out)
    checks.require("a kept failure recurs, run 1" in again, f"{name}: not tried first", again)
    # A file that makes no sense, and one that shows something else.
    (out / "changed.toml").write_text(repro.replace('digest = "', 'digest = "f'), encoding="utf-8")
    checks.run(2, "replay", out / "changed.toml")
    digest = repro.split('trace_digest = "', 1)[1][:16]
    other = ("0" if digest[0] == "f" else "f") + digest[1:]
    (out / "changed.toml").write_text(repro.replace(digest, other), encoding="utf-8")
    checks.run(2, "replay", out / "changed.toml")


def check_healthy(checks):
    """Nothing is found, nothing is written; threads change no word; only all schedules are a proof."""
    words = ["explore", ZOO / "no_set_epoch.toml", "--variant", "fixed", "--seeds", 2, "--runs", 100]
    texts = {checks.run(0, *words, "-j", threads) for threads in (1, 2, 5)}
    checks.require(len(texts) == 1, "threads change what is printed", "\n".join(texts))
    text = texts.pop()
    checks.require("no proof" in text and "100 runs of 2 seeds" in text, "unexpected words", text)
    varied = checks.run(0, *words[:-2], "--runs", 60, "--vary")
    checks.require("small changes" in varied, "no small changes", varied)
    all_of_them = checks.run(0, "explore", ZOO / "two_comm_cycle.toml", "--variant", "fixed",
                             "--strategy", "exhaustive")
    checks.require("proof for all schedules" in all_of_them, "no proof", all_of_them)
    pct = checks.run(0, "explore", ZOO / "two_comm_cycle.toml", "--variant", "fixed", "--strategy",
                     "pct:depth=2", "--runs", 20)
    checks.require("with a probability of at least 0.0" in pct, "no bound", pct)
    checks.require(not (checks.folder / "lockstep-out").exists(), "something was written", "")


MARKS = """
sometimes = [
  { name = "a step is taken", event = "step" },
  { name = "step 90 is reached", event = "forward", step = 90 },
]
"""


def check_marks(checks):
    """Marks that runs reach make no difference; one that none reaches is named with its place, and fails."""
    healthy = (ROOT / "scenarios" / "healthy" / "any_schedule.toml").read_text(encoding="utf-8")
    head, variants = healthy.split("\n# Also where", 1)
    scenario = checks.folder / "marks.toml"
    scenario.write_text(head + MARKS + "\n# Also where" + variants, encoding="utf-8")
    line = head.count("\n") + 4
    text = checks.run(1, "explore", scenario, "--runs", 5, "--strategy", "uniform")
    checks.require("marks: 1 of 2 reached\n" in text, "marks are not counted", text)
    checks.require(f"  never reached: step 90 is reached ({scenario}:{line}:3)\n" in text, "no place", text)
    words = ["explore", scenario, "--runs", 5, "--json"]
    found = json.loads(checks.run(1, *words))
    checks.require([mark["runs"] for mark in found["coverage"]["marks"]] == [5, 0], "JSON differs", str(found))
    checks.require(found["failure"] is None and found["coverage"]["runs"] == 5, "JSON differs", str(found))
    scenario.write_text(head + MARKS.replace("step = 90", "step = 1"), encoding="utf-8")
    checks.run(0, *words)


RACE = """format = 1
title = "A write during a transfer that no law checks"
world = {{ ranks = 4 }}
policy = {{ allow = ["in-flight-untouched"] }}
tensor.grad = {{ shape = [6], fill = 1 }}
tensor.other = {{ shape = [3], fill = 2 }}
program = [
  {{ ranks = "all", body = [ {{ op = "all_reduce", tensor = "other" }}, {{ op = "barrier" }} ] }},
  {{ ranks = [0, 1, 3], body = [ {{ op = "all_reduce", tensor = "grad", async = "w" }}, {{ op = "wait", work = "w" }} ] }},
  {{ ranks = [2], body = [ {{ op = "all_reduce", tensor = "grad", async = "w" }}, {{ op = "compute", ns = 1 }}, {between}{{ op = "wait", work = "w" }}{after} ] }},
  {{ ranks = [0, 1, 3], body = [ {{ op = "read", tensor = "grad" }} ] }},
]
"""
WRITE = '{ op = "write", tensor = "grad", value = 0 }'


def check_schedule_dependent(checks):
    """A result that other schedules change, without a law that complains, is made small and kept."""
    scenario = checks.folder / "race.toml"
    scenario.write_text(RACE.format(between=WRITE + ", ", after=""), encoding="utf-8")
    words = ["explore", scenario, "--runs", 100, "--out", "race"]
    text = checks.run(1, *words)
    for part in ("the result depends on the schedule", "shrunk in", "ranks 4 -> 2",
                 "(law DETERMINISTIC)", "kept for the next time"):
        checks.require(part in text, f"race: '{part}' is not reported", text)
    repro = checks.folder / "race" / "repro.toml"
    checks.require("reproduced: the same trace" in checks.run(1, "replay", repro), "race: not repeated", text)
    checks.run(0, "test", repro)
    again = checks.run(1, *words)
    checks.require("a kept failure recurs, run 1" in again, "race: not tried first", again)
    # Repaired: the write waits for the transfer.
    scenario.write_text(RACE.format(between="", after=", " + WRITE), encoding="utf-8")
    repaired = checks.run(0, *words)
    checks.require("nothing failed" in repaired, "race: repaired, and still there", repaired)


def check_kept_jobs(checks, words, found):
    """Failing random jobs are tried first the next time, under the same settings alone."""
    kept = sorted((checks.folder / "found/regressions").glob("random-job-3-*.toml"))
    checks.require(len(kept) == len(found), "not every job is kept", str(kept))
    again = checks.run(1, *words, "--out", "found")
    checks.require(f"kept failures: {len(kept)} of {len(kept)} recur" in again, "not tried first", again)
    checks.require(again.index("a kept failure") < again.index("random jobs of seed"), "not first", again)
    for file in kept:
        checks.run(1, "replay", file)
    other = checks.run(0, "explore", "--jobs", 5, "--seed", 3, "--out", "found")
    checks.require("kept" not in other, "failures of other settings", other)
    # A kept job that is repaired passes, and the next search says so.
    for file in kept:
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("factor = 3.0", "factor = 1.0"), encoding="utf-8")
    repaired = checks.run(1, *words, "--out", "found")
    checks.require(f"kept failures: 0 of {len(kept)} recur" in repaired, "still there", repaired)


def check_random_jobs(checks):
    """Correct jobs are quiet; of planted bugs the jobs come out small; threads change no word."""
    quiet = {checks.run(0, "explore", "--jobs", 300, "--seed", 5, "-j", n) for n in (1, 3)}
    checks.require(len(quiet) == 1 and "false alarms: 0 of 300, with 95 % confidence fewer than 0.01"
                   in next(iter(quiet)), "unexpected words", "\n".join(quiet))
    checks.require(not (checks.folder / "lockstep-out").exists(), "something was written", "")
    bug = 'bug=[{kind="scale-gradient", ranks=[1], factor=3.0, at={event="backward"}}]'
    words = ["explore", "--jobs", 12, "--seed", 3, "--thorough-every", 0, "--set", bug]
    texts = set()
    for n in (1, 3):
        shutil.rmtree(checks.folder / "found", ignore_errors=True)
        texts.add(checks.run(1, *words, "-j", n, "--out", "found"))
    checks.require(len(texts) == 1, "threads change what is printed", "\n".join(texts))
    text = texts.pop()
    found = sorted((checks.folder / "found").glob("job-*/repro.toml"))
    checks.require(len(found) > 3 and "of which 9 can have these settings" in text and f"findings: {len(found)} of 9" in text,
                   "few are found", text)
    for repro in found:
        scenario = repro.read_text(encoding="utf-8")
        checks.require("ranks = 2" in scenario, "not two ranks", scenario)
        checks.run(1, "replay", repro)
        checks.run(0, "test", repro)
    check_kept_jobs(checks, words, found)


def main():
    """Everything, with the command named on the command line."""
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(str(Path(sys.argv[1]).resolve()), Path(folder))
        for name, (law, most_ranks) in CASES.items():
            check_found(checks, name, law, most_ranks)
        check_healthy(checks)
        check_marks(checks)
        check_schedule_dependent(checks)
        check_random_jobs(checks)
        return 1 if checks.n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
