#!/usr/bin/env python3
"""Runs the digits job on Lockstep and on PyTorch DDP over gloo, one after the other on this machine,
and prints the ratio of their times. Writes build/bench.json.

Usage: bench/side_by_side.py [--lockstep COMMAND] [--python PYTHON] [--runs 5]
The Python must have torch; without it the script says so and exits with 3.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCENARIO = ROOT / "scenarios/jobs/digits.toml"


def timed(command):
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed with {done.returncode}:\n{done.stderr}")
    return seconds, done.stdout


def lockstep_seconds(binary, runs):
    """Whole processes, from start to exit: reading the file, all ranks, all laws, the report."""
    return [timed([binary, "run", SCENARIO, "--quiet"])[0] for _ in range(runs)]


def torch_result(python, job):
    command = [
        python, ROOT / "bench/peers/torch_ddp_digits.py",
        "--data", ROOT / "scenarios/data/digits.csv",
        "--holdout", job["data"]["holdout"],
        "--split-seed", job["data"].get("split_seed", 0),
        "--ranks", job["world"]["ranks"],
        "--epochs", job["loop"]["epochs"],
        "--batch", job["loader"]["batch"],
        "--lr", job["optimizer"]["lr"],
        "--momentum", job["optimizer"].get("momentum", 0.0),
        "--seed", job["loader"].get("seed", 0),
        "--init-seed", job["model"].get("init", {}).get("seed", 0),
    ]
    seconds, output = timed([str(word) for word in command])
    result = json.loads(output.strip().splitlines()[-1])
    result["process_seconds"] = seconds
    return result


def has_torch(python):
    try:
        return subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lockstep", default=ROOT / "build-optimised/bin/lockstep")
    parser.add_argument("--python", default=ROOT / "build/torch-2.15.0/bin/python")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", default=ROOT / "build/bench.json")
    args = parser.parse_args()
    if not has_torch(args.python):
        print(f"{args.python} is not there or has no torch: nothing to compare with", file=sys.stderr)
        return 3
    with open(SCENARIO, "rb") as file:
        job = tomllib.load(file)

    ours = lockstep_seconds(args.lockstep, args.runs)
    peer = torch_result(args.python, job)
    ratio = peer["process_seconds"] / statistics.median(ours)
    report = {
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "job": str(SCENARIO.relative_to(ROOT)),
        "ranks": job["world"]["ranks"],
        "steps": peer["steps"],
        "lockstep_seconds": {"cold": ours[0], "median": statistics.median(ours), "runs": args.runs},
        "torch": peer,
        "ratio_whole_job": ratio,
        "ratio_step": peer["step_seconds"] * peer["steps"] / statistics.median(ours),
    }
    pathlib.Path(args.out).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(f"digits, {report['ranks']} ranks, {report['steps']} steps, whole processes")
    print(f"  Lockstep, laws on            {statistics.median(ours):9.4f} s  (first {ours[0]:.4f} s)")
    print(f"  PyTorch {peer['torch']} DDP on gloo {peer['process_seconds']:9.4f} s")
    print(f"  ratio                        {ratio:9.1f} x")
    print(f"  ratio without PyTorch's start {report['ratio_step']:8.1f} x"
          "  (its warm median step times steps, against our whole process)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
