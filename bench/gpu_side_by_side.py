#!/usr/bin/env python3
"""Times data-parallel training steps on this machine's GPU, alternating between Lockstep and PyTorch
DDP, and prints both times and their ratio as JSON, per network.

Usage: bench/gpu_side_by_side.py [--program build/bin/gpu_step_bench] [--python python3] [--rounds 3]
                                 [--models mlp,cnn,gpt] [--steps 50] [--out FILE]
Ends with 3, and one sentence, where there is no GPU or no PyTorch that can use it.
"""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def timed(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        sys.exit(f"{command[0]} is not there: build the target gpu_step_bench")
    if done.returncode != 0:
        print(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else
              f"{command[0]} ended with {done.returncode}", file=sys.stderr)
        sys.exit(3 if done.returncode == 3 else 1)
    return json.loads(done.stdout.strip().splitlines()[-1])


def beside(program, python, model, steps, rounds):
    """One network: the times of both, and what they are taken from."""
    ours, theirs = [], []
    for _ in range(rounds):  # Alternating: a GPU's clock changes as it warms up.
        ours.append(timed([program, model, steps]))
        theirs.append(timed([python, ROOT / "bench/peers/torch_ddp_gpu.py", model, steps]))
    best = [min(run["seconds_per_step"] for run in runs) for runs in (ours, theirs)]
    return {
        "lockstep_seconds_per_step": best[0],
        "torch_seconds_per_step": best[1],
        "ratio": best[0] / best[1],
        "lockstep": ours,
        "torch": theirs,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=ROOT / "build/bin/gpu_step_bench")
    parser.add_argument("--python", default="python3")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", default="mlp,cnn,gpt")
    parser.add_argument("--steps", default="50")
    parser.add_argument("--out", help="a file for the JSON, too")
    args = parser.parse_args()
    answer = json.dumps({model: beside(args.program, args.python, model, args.steps, args.rounds)
                         for model in args.models.split(",")}, indent=2)
    if args.out:
        pathlib.Path(args.out).write_text(answer + "\n", encoding="utf-8")
    print(answer)


if __name__ == "__main__":
    main()
