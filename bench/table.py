#!/usr/bin/env python3
"""Measures Lockstep and its peers on this machine, in one run, and prints a table with ratios.

Writes build/bench_table.json. Nothing is asserted: a goal that is missed is printed as missed.

Usage: bench/table.py [MEASURE...] [--bin DIR] [--python PYTHON] [--reference-python PYTHON] [--out FILE]
Measures: training wide collectives scheduling network scale (default: all).
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import sys
import types

from measures import MEASURES
from runners import ROOT, Missing


def quantity(value, unit):
    if value is None:
        return ""
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {letter}{'' if unit.startswith('b') else ' '}{unit}"
    if unit == "s":
        for factor, letter in ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n")):
            if abs(value) >= factor:
                return f"{value / factor:.3g} {letter}s"
    return f"{value:.3g} {unit}"


def line_of(row):
    ours = quantity(row["ours"], row["unit"])
    theirs = quantity(row["theirs"], row["unit"])
    ratio = "" if row["ratio"] is None else f"{row['ratio']:,.3g} x"
    verdict = {True: "met", False: "missed", None: ""}[row["met"]]
    peer = row["peer"] or ""
    return [row["name"], ours, peer, theirs, ratio, row["goal"], verdict, row["note"]]


def print_table(rows):
    head = ["measure", "Lockstep", "peer", "its", "ratio", "goal", "", ""]
    lines = [head, *map(line_of, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for line in lines:
        print("  ".join(word.ljust(width) for word, width in zip(line, widths)).rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=" ".join(MEASURES))
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build-optimised/bin")
    parser.add_argument("--python", default=ROOT / "build/torch-2.15.0/bin/python",
                        help="with the quickest build of PyTorch that can be had")
    parser.add_argument("--reference-python", default="/usr/bin/python3",
                        help="with a build of PyTorch on the reference BLAS, to stand beside it")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/bench_table.json")
    args = parser.parse_args()
    for name in args.measures:
        if name not in MEASURES:
            parser.error(f"no measure '{name}'; there are {', '.join(MEASURES)}")
    context = types.SimpleNamespace(root=ROOT, bin=args.bin, python=args.python,
                                    reference_python=args.reference_python)
    rows = []
    for name in args.measures or MEASURES:
        print(f"measuring {name} ...", file=sys.stderr)
        try:
            rows += MEASURES[name](context)
        except Missing as why:
            print(f"{name}: {why}", file=sys.stderr)
    report = {"date": datetime.date.today().isoformat(), "machine": platform.processor() or
              platform.machine(), "cores": os.cpu_count(), "rows": rows}
    args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print_table(rows)
    return 0 if rows else 3


if __name__ == "__main__":
    sys.exit(main())
