#!/usr/bin/env python3
"""Drawn worlds in every way a machine can run them: the digests must not notice.

usage: determinism.py [--word WORD] PROBE [WORLDS [OTHER_PROBE...]]

WORD is what the probe is asked for [digests]. One process; several at once; pinned to one processor; with addresses fixed and not; under load; and
as other builds of the probe (without optimization, say) answer.
"""
import argparse
import os
import shutil
import subprocess
import sys

PARTS = 4


def start(command):
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def finish(process):
    text, _ = process.communicate()
    if process.returncode != 0:
        sys.exit(f"determinism: exit code {process.returncode} from {' '.join(process.args)}")
    return text


def together(probe, word, worlds):
    """The worlds split among processes that run side by side."""
    size = worlds // PARTS
    starts = [part * size for part in range(PARTS)]
    counts = [size] * (PARTS - 1) + [worlds - size * (PARTS - 1)]
    parts = [start([probe, word, str(first), str(count)])
             for first, count in zip(starts, counts)]
    return "".join(finish(part) for part in parts)


def loaded(plain):
    """With one busy process per processor next to it."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
               for _ in range(os.cpu_count() or 1)]
    try:
        return finish(start(plain))
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--word", default="digests")
    parser.add_argument("probe")
    parser.add_argument("worlds", nargs="?", type=int, default=1000)
    parser.add_argument("others", nargs="*")
    args = parser.parse_args()
    probe, word, worlds = args.probe, args.word, args.worlds
    plain = [probe, word, "0", str(worlds)]
    expected = finish(start(plain))
    if expected.count("\n") != worlds:
        sys.exit(f"determinism: {expected.count(chr(10))} worlds instead of {worlds}")
    ways = {"again": lambda: finish(start(plain)),
            f"{PARTS} processes": lambda: together(probe, word, worlds),
            "under load": lambda: loaded(plain)}
    if shutil.which("taskset"):
        one = str(min(os.sched_getaffinity(0)))
        ways["taskset"] = lambda: finish(start(["taskset", "-c", one, *plain]))
    # Containers may forbid to change the personality.
    fixed = ["setarch", os.uname().machine, "-R"]
    if shutil.which("setarch") and subprocess.run([*fixed, "true"], check=False,
                                                  stderr=subprocess.DEVNULL).returncode == 0:
        ways["setarch -R"] = lambda: finish(start([*fixed, *plain]))
    for other in args.others:
        ways[other] = lambda other=other: finish(start([other, word, "0", str(worlds)]))
    for name, way in ways.items():
        actual = way()
        if actual == expected:
            print(f"{name}: {worlds} worlds, the same digests")
            continue
        for left, right in zip(expected.splitlines(), actual.splitlines()):
            if left != right:
                sys.exit(f"determinism: {name}: {right}, expected {left}")
        sys.exit(f"determinism: {name}: another number of worlds")


if __name__ == "__main__":
    main()
