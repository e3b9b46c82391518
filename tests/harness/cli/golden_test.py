#!/usr/bin/env python3
"""Compares what the lockstep command prints with files: tests/harness/cli/golden/NAME.txt.

Each case runs one or more commands in an empty folder and compares stdout, stderr and the exit code of
each with the file. `LOCKSTEP_UPDATE_GOLDEN=1` rewrites the files instead. Bad input must also leave the
folder as it was: a command that fails to read must not write.
"""

import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "harness" / "cli" / "golden"
WEIGHTS = "scenarios/lessons/weights_2_and_200.toml"
ROUNDED = "scenarios/healthy/any_schedule.toml"

CONTRIBUTIONS = "".join(f" --contributions IN/sums/rank{rank}.npy" for rank in range(3))
COMMANDS = ("run test zoo explore merge replay check diff explain-diff bisect export analyze certify whatif laws explain sampler nccl-log crosscheck "
            "launch rank help").split()

# Name of the golden file -> commands. SRC/ is the source tree, IN/ the folder of broken inputs.
CASES = {
    "help": ["--help", *(f"{command} --help" for command in COMMANDS)],
    "laws": ["laws"],
    "laws_of_one": ["laws GRADIENT-MEAN", "laws resume-equal"],
    "explain": ["explain clip-before-unscale", "explain clip-before-unscal", "explain token-weighted-mean"],
    "run_weights": [f"run SRC/{WEIGHTS}"],
    "run_weights_after_wrapping": [f"run SRC/{WEIGHTS} --variant after_wrapping"],
    "run_laws": [f"run SRC/{WEIGHTS} --variant after_wrapping --laws"],
    "run_hang": ["run SRC/scenarios/lessons/rank0_only_barrier.toml"],
    "run_twice": [f"run SRC/{WEIGHTS} --twice"],
    "test": [
        "test SRC/scenarios/zoo/token_weighted_mean.toml SRC/scenarios/lessons/set_epoch.toml",
        "test IN/wrong_expectation.toml",
        # The same files with a setting that keeps what they expect, and one that does not.
        "test SRC/scenarios/zoo/token_weighted_mean.toml --set sim.strategy=random",
        "test SRC/scenarios/lessons/set_epoch.toml --set loop.epochs=1",
        "test SRC/scenarios/lessons/set_epoch.toml --set loop.epoch=1",
    ],
    "certify": [
        "certify SRC/scenarios/averages/reduced_in_each_micro_step.toml",
        "certify SRC/scenarios/averages/reduced_in_each_micro_step.toml --variant fixed",
        "certify SRC/scenarios/averages/tokens_per_rank.toml --objective 1/4,3/4",
        "certify SRC/scenarios/zoo/partial_window.toml",
        "certify SRC/scenarios/zoo/last_micro_unsynced.toml",
        "certify SRC/scenarios/zoo/sum_vs_mean.toml",
    ],
    "explain_diff": [
        f"explain-diff IN/sums/{first}.npy IN/sums/{second}.npy{more}"
        for first, second, more in (("chain", "chain", ""), ("chain", "rotated", ""), ("chain", "rotated", CONTRIBUTIONS),
                                    ("chain", "lost", CONTRIBUTIONS), ("chain", "rotated", CONTRIBUTIONS + " --mean"),
                                    ("chain", "lost", CONTRIBUTIONS + " --json"),
                                    ("chain", "rotated", CONTRIBUTIONS + " --factor 0.5"))
    ],
    "explain_diff_of_runs": [
        f"run SRC/{ROUNDED} --trace ring --values --quiet",
        f"run SRC/{ROUNDED} --trace pairs --values --quiet --set sim.order=pairwise",
        f"run SRC/{ROUNDED} --trace digests --quiet --set sim.order=pairwise",
        f"run SRC/{ROUNDED} --trace other-rate --values --quiet --set optimizer.lr=0.3",
        "explain-diff ring ring",
        "explain-diff ring pairs",
        "explain-diff ring pairs --json",
        "explain-diff ring digests",
        "explain-diff ring other-rate",
        "explain-diff IN/series/first IN/series/second",
        "explain-diff IN/series/first IN/series/second --json",
    ],
    "whatif": [
        "whatif SRC/scenarios/lessons/bucket_size.toml --sweep ddp.bucket_cap_mb=0.1,0.2,0.4,0.8,25",
        "whatif SRC/scenarios/lessons/bucket_size.toml --set loop.steps=2 --sweep ddp.bucket_cap_mb=25 --json",
    ],
    "run_with_times": ["run SRC/scenarios/lessons/bucket_size.toml --set model.widths=[128,16,16,10] --trace out --quiet", "check out --times"],
    "analyze": ["analyze IN/three_contributions.toml", "analyze IN/three_contributions.toml --json"],
    "sampler": [
        "sampler --size 16 --replicas 2 --no-shuffle",
        "sampler --size 16 --replicas 2 --seed 0 --epoch 0",
        "sampler --size 5 --replicas 2 --rank 1 --drop-last --no-shuffle",
    ],
    "diff": [
        "diff IN/sums/chain.npy IN/sums/rotated.npy",
        "diff IN/sums/chain.npy IN/sums/rotated.npy --json",
        "diff IN/sums/whole.npy IN/sums/whole.npy",
        "diff IN/sums/whole.npy IN/sums/chain.npy",
        f"run SRC/{WEIGHTS} --variant after_wrapping --trace broken --values --quiet",
        f"run SRC/{WEIGHTS} --trace healthy --values --quiet",
        "diff healthy broken",
        "diff healthy broken --json",
        "diff healthy healthy --json",
    ],
    "nccl_log": ["nccl-log IN/nccl_rank0.log IN/nccl_rank1.log"],
    "trace_check_diff_replay": [
        f"run SRC/{WEIGHTS} --variant after_wrapping --trace broken --quiet",
        f"run SRC/{WEIGHTS} --trace healthy --quiet",
        f"run SRC/{WEIGHTS} --trace again --quiet --schedule-seed 0",
        "check healthy",
        "check broken --law init-equal",
        "check broken --allow init-equal --allow replicas-equal@weight",
        "diff healthy healthy",
        "diff healthy broken",
        "bisect broken",
        "bisect healthy",
        "bisect healthy broken",
        "bisect healthy again",
        "replay broken/repro.toml",
    ],
}

# Commands that must fail with exit code 2, say one sentence and write nothing.
BAD = [
    "run nowhere.toml --trace out",
    "run SRC --trace out",
    "run IN/malformed.toml --trace out",
    "run IN/unknown_key.toml --trace out --report out.json",
    "run IN/wrong_type.toml",
    "run IN/world_of_zero.toml",
    "run IN/nan_in_csv.toml --trace out",
    "run IN/missing_csv.toml",
    "run IN/batch_too_large.toml",
    "run IN/unknown_bug.toml",
    "run IN/unknown_tensor.toml",
    "run IN/bug_beyond_tensor.toml",
    "run IN/unknown_key_in_variant.toml --trace out --report out.json",
    "explore IN/unknown_key_in_variant.toml --out out",
    "analyze IN/unknown_key_in_variant.toml",
    "run IN/rank_out_of_range.toml",
    "run IN/not_yet.toml",
    f"run SRC/{WEIGHTS} --variant after_wraping",
    f"run SRC/{WEIGHTS} --set optimizer.learning_rate=1",
    f"run SRC/{WEIGHTS} --set nonsense",
    f'run SRC/{WEIGHTS} --set sim.also=["random","rnadom"]',
    "analyze dump.json",
    "analyze nowhere.toml",
    "explain-diff IN/sums/chain.npy nowhere.npy",
    "explain-diff IN/sums/chain.npy IN/sums/whole.npy",
    "explain-diff IN/sums/chain.npy IN/sums/rotated.npy --contributions IN/sums/rank0.npy",
    "explain-diff IN/sums/chain.npy IN/sums/rotated.npy --mean --factor 2",
    "explain-diff IN/sums/chain.npy IN/sums/rotated.npy --factor 0",
    "explain-diff IN/sums IN/sums/rotated.npy",
    "explain-diff IN/series/first IN/sums",
    "explain-diff IN/series/first IN/series/second --contributions IN/sums/rank0.npy",
    "whatif nowhere.toml",
    "whatif SRC/scenarios/lessons/bucket_size.toml --sweep ddp.bucket_cap=1",
    "whatif SRC/scenarios/lessons/bucket_size.toml --sweep ddp.bucket_cap_mb=",
    "whatif SRC/scenarios/lessons/bucket_size.toml --calibrate IN/rank_out_of_range.toml",
    "whatif SRC/scenarios/lessons/bucket_size.toml --calibrate nowhere",
    f"whatif SRC/{WEIGHTS}",
    "certify nowhere.toml",
    "certify SRC/scenarios/averages/tokens_per_rank.toml --objective token-meen",
    "certify SRC/scenarios/averages/tokens_per_rank.toml --objective 1/4,1/4,1/2",
    "certify SRC/scenarios/lessons/other_collectives.toml",
    "certify SRC/scenarios/healthy/local_sgd.toml",
    "certify SRC/scenarios/healthy/comm_hook_fp16.toml",
    "certify SRC/scenarios/zoo/uneven_batches.toml",
    f"run SRC/{WEIGHTS} --backend mpi --trace out",
    f"run SRC/{WEIGHTS} --backend simm",
    f"run SRC/{WEIGHTS} --nproc 0",
    f"crosscheck SRC/{WEIGHTS}",
    f"crosscheck SRC/{WEIGHTS} --against mpi",
    f"crosscheck SRC/{WEIGHTS} --against gloo --nproc 0",
    "help rnu",
    "help --all",
    "help run test",
    "laws gradient-maen",
    "laws velocity",
    "check IN",
    f"run SRC/{WEIGHTS}/below",
    f"run SRC/{WEIGHTS} --variant nothing_like_it",
    "run IN/three_contributions.toml --variant any",
    "explore --runs 5",
    f"run SRC/{WEIGHTS} --variant",
    "explore --jobs 0",
    "explore --jobs 3 --set nope=3",
    "explore --jobs 3 --set world.ranks=0",
    "explore --jobs 2 --set optimizer.lr=0.5 --first -1",
    "sampler --size 9 --replicas 2 --seed 99999999999999999999",
    "sampler --size 9 --replicas 2 --epoch 0x10",
    "sampler --size 9 --replicas 1000000000001",
    "sampler --size 1000000000001 --replicas 2",
    "certify SRC/scenarios/averages/tokens_per_rank.toml --objective 1000001/2,1",
    f"run SRC/{WEIGHTS} --report ''",
    f"run SRC/{WEIGHTS} --report r.json --repro r.json",
    f"run SRC/{WEIGHTS} --repro SRC/{WEIGHTS}",
    f"run SRC/{WEIGHTS} --set sim.compute.gflops=inf",
    f"run SRC/{WEIGHTS} --set ddp.bucket_cap_mb=nan",
    "zoo --shard 1/2 --part ''",
    f"explore SRC/{WEIGHTS} --jobs 2 --threads 2",
    f"explore SRC/{WEIGHTS} --seed 3",
    "launch --nproc-per-node 2",
    "launch --redirects 9 -- true",
    "rank nowhere.toml",
    f"run SRC/{WEIGHTS} --report out.htm --trace out",
    f"run SRC/{WEIGHTS} --report out.txt",
    f"run SRC/{WEIGHTS} --schedule-seed many",
    f"run SRC/{WEIGHTS} --varient x",
    f"run SRC/{WEIGHTS} surplus",
    "run",
    "run ''",
    "explain ''",
    "rnu x.toml",
    "explore x.toml",
    f"explore SRC/{WEIGHTS} --strategy rondom --out out",
    f"explore SRC/{WEIGHTS} --runs 0",
    "--verson",
    "test IN/unknown_law.toml",
    "test",
    f"replay SRC/{WEIGHTS}",
    "check nowhere",
    "check SRC/scenarios --law replicas-eqal",
    "diff nowhere nothing",
    "nccl-log",
    "nccl-log nowhere.log",
    "nccl-log IN/nan_in_csv.toml",
    "sampler --size 4",
    "sampler --size 4 --replicas 0",
    "sampler --size 4 --replicas 2 --rank 2",
    "sampler --size -1 --replicas 2",
]


def run(binary, command, folder):
    """One command's transcript, and its exit code. Places of this machine are taken out."""
    words = [word.replace("SRC", str(ROOT), 1) if word.startswith("SRC") else
             word.replace("IN/", f"{ROOT}/tests/harness/cli/input/", 1) if word.startswith("IN/") else word
             for word in shlex.split(command)]
    environment = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run([binary, *words], cwd=folder, capture_output=True, text=True,
                          env=environment, timeout=60, check=False)

    def plain(text):
        # A trace digest covers call sites, line numbers of the library included.
        text = re.sub(r"trace digest [0-9a-f]{16}", "trace digest (16 digits)", text)
        return text.replace(str(ROOT), "SRC").replace(str(folder), "OUT")

    lines = [f"$ lockstep {command}"]
    lines += plain(done.stdout).splitlines()
    lines += ["stderr: " + line for line in plain(done.stderr).splitlines()]
    lines.append(f"exit code {done.returncode}")
    return lines, done


def compare(name, lines):
    """True when the golden file says the same."""
    path = GOLDEN / f"{name}.txt"
    text = "\n".join(lines) + "\n"
    if os.environ.get("LOCKSTEP_UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
        return True
    expected = path.read_text(encoding="utf-8") if path.exists() else ""
    if expected == text:
        return True
    print(f"{path} differs (LOCKSTEP_UPDATE_GOLDEN=1 rewrites it):")
    sys.stdout.writelines(difflib.unified_diff(
        expected.splitlines(True), text.splitlines(True), "expected", "printed"))
    return False


def check_cases(binary):
    """Runs the cases whose whole output is kept."""
    good = True
    for name, commands in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            lines = []
            for command in commands:
                lines += run(binary, command, Path(folder).resolve())[0] + [""]
        good = compare(name, lines[:-1]) and good
    return good


def check_bad_input(binary):
    """Runs the commands that must be refused."""
    good = True
    lines = []
    for command in BAD:
        with tempfile.TemporaryDirectory() as folder:
            transcript, done = run(binary, command, Path(folder).resolve())
            left = sorted(os.listdir(folder))
        lines += transcript + [""]
        sentence = done.stderr.strip()
        complaints = []
        if done.returncode != 2:
            complaints.append(f"exit code {done.returncode}, not 2")
        if not sentence or "\n" in sentence or sentence.endswith("."):
            complaints.append(f"not one sentence: {sentence!r}")
        if done.stdout:
            complaints.append("something on stdout")
        if left:
            complaints.append(f"left behind: {left}")
        for complaint in complaints:
            print(f"lockstep {command}: {complaint}")
            good = False
    return compare("bad_input", lines[:-1]) and good


def main():
    """Runs everything with the command named on the command line."""
    binary = str(Path(sys.argv[1]).resolve())
    cases = check_cases(binary)
    bad = check_bad_input(binary)
    return 0 if cases and bad else 1


if __name__ == "__main__":
    sys.exit(main())
