#!/usr/bin/env python3
"""Explores scenarios with the lockstep command, and repeats what it found in new processes.

The first argument is the command. Everything is written to a temporary folder.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ZOO = ROOT / "scenarios" / "zoo"

# Scenario -> the law that is found broken, and the most ranks of the reproduction.
CASES = {
    "bypass_wrapper": ("REPLICAS-EQUAL", 2),
    "overlap_race": ("IN-FLIGHT-UNTOUCHED", 2),
    "rank0_only_collective": ("COLLECTIVES-MATCH", 2),
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
    checks.require("a kept failure is there again, run 1" in again, f"{name}: not tried first", again)
    # A file that makes no sense, and one that shows something else.
    (out / "changed.toml").write_text(repro.replace('digest = "', 'digest = "f'), encoding="utf-8")
    checks.run(2, "replay", out / "changed.toml")
    digest = repro.split('trace_digest = "', 1)[1][:16]
    other = ("0" if digest[0] == "f" else "f") + digest[1:]
    (out / "changed.toml").write_text(repro.replace(digest, other), encoding="utf-8")
    checks.run(70, "replay", out / "changed.toml")


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


def check_random_jobs(checks):
    """Correct jobs are quiet; of planted bugs the jobs come out small; threads change no word."""
    quiet = {checks.run(0, "explore", "--jobs", 300, "--seed", 5, "-j", n) for n in (1, 3)}
    checks.require(len(quiet) == 1 and "false alarms: 0 of 300, with 95 % confidence fewer than 0.01"
                   in next(iter(quiet)), "unexpected words", "\n".join(quiet))
    checks.require(not (checks.folder / "lockstep-out").exists(), "something was written", "")
    bug = 'bug=[{kind="scale-gradient", ranks=[1], factor=3.0, at={event="backward"}}]'
    words = ["explore", "--jobs", 12, "--seed", 3, "--thorough-every", 0, "--set", bug]
    texts = {checks.run(1, *words, "-j", n, "--out", "found") for n in (1, 3)}
    checks.require(len(texts) == 1, "threads change what is printed", "\n".join(texts))
    text = texts.pop()
    found = sorted((checks.folder / "found").glob("job-*/repro.toml"))
    checks.require(len(found) > 3 and f"findings: {len(found)} of 12" in text, "few are found", text)
    for repro in found:
        scenario = repro.read_text(encoding="utf-8")
        checks.require("ranks = 2" in scenario, "not two ranks", scenario)
        checks.run(1, "replay", repro)
        checks.run(0, "test", repro)


def main():
    """Everything, with the command named on the command line."""
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(str(Path(sys.argv[1]).resolve()), Path(folder))
        for name, (law, most_ranks) in CASES.items():
            check_found(checks, name, law, most_ranks)
        check_healthy(checks)
        check_random_jobs(checks)
        return 1 if checks.n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
