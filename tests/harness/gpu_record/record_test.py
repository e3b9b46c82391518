#!/usr/bin/env python3
"""gpu/record.py where there is no GPU: it says so and writes nothing; its steps work, over Gloo."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SCRIPT, BUILD = sys.argv[1:3]
JOB = "tests/harness/crosscheck/mlp.toml, 3 ranks"


def run(*words):
    done = subprocess.run([sys.executable, SCRIPT, BUILD, *map(str, words)], capture_output=True, text=True,
                          env={**os.environ, "NCCL_RAS_ADDR": "localhost:1"})
    return done.returncode, done.stdout, done.stderr


def expect(condition, what):
    if not condition:
        sys.exit(f"record_test: {what}")


def without_a_gpu(folder):
    program = pathlib.Path(BUILD, "bin", "lockstep_gpu_record")
    if subprocess.run([program, "obstacle", "nccl"], capture_output=True).returncode == 0:
        return  # There is a GPU: a recording takes minutes.
    code, out, err = run("--out", folder / "none")
    expect(code == 3, f"exit code {code}, not 3: {err}")
    expect(out == "" and len(err.splitlines()) == 1, f"one sentence was expected: {err}")
    expect("CUDA" in err, err)
    expect(not (folder / "none").exists(), "something was written")


def rehearsal(folder):
    program = pathlib.Path(BUILD, "bin", "lockstep_gpu_record")
    if subprocess.run([program, "obstacle", "gloo"], capture_output=True).returncode != 0:
        return  # Built without Gloo.
    code, out, err = run("--rehearse", "--short", "--out", folder)
    expect(code == 0, err)
    recording = json.loads(pathlib.Path(out.strip()).read_text())
    expect(recording["format"] == "lockstep-rehearsal-without-gpu", recording["format"])
    steps = {one["step"]: one for one in recording["steps"]}
    launch = steps["3 ranks, ring, Simple, 1 channel, launch 0"]
    # Gloo adds in a different order than NCCL: what rounds is impossible, the rest is not.
    expect(launch["verdicts"].get("impossible", 0) > 10, str(launch))
    expect(launch["verdicts"].get("nccl-ring", 0) > 100, str(launch))
    expect(steps["fault op, checked"]["verdict"] == "mismatch", str(steps["fault op, checked"]))
    expect(steps["fault op, unchecked"]["verdict"] == "silent and wrong", str(steps["fault op, unchecked"]))
    killed = steps["fault kill, checked"]
    expect(killed["exit_codes"][1] == -9, str(killed))
    expect(killed["by_rank"]["0"]["status"] in ("peer_lost", "timed_out"), str(killed))
    expect(steps[JOB]["exit_code"] == 0, str(steps[JOB]))
    # Gloo has no port to ask: the ranks hung, and the record says that there was no answer.
    hang = steps["RAS of a hang"]
    expect(hang["exit_code"] == 77 and "timed_out" in hang["statuses"], str(hang))
    expect("a rehearsal has no GPU" in steps["compute-sanitizer racecheck"]["said"], str(steps))
    expect("a rehearsal has no GPU" in steps["managed memory beside plain"]["said"], str(steps))
    expect(steps["PyTorch alone, 2 ranks"]["exit_code"] in (0, 77), str(steps["PyTorch alone, 2 ranks"]))
    # A folder without a recording is not taken for one.
    checked = subprocess.run([program, "check", str(folder)], capture_output=True, text=True)
    expect(checked.returncode == 2 and "not a recording of a GPU run" in checked.stderr,
           checked.stderr)


with tempfile.TemporaryDirectory() as name:
    without_a_gpu(pathlib.Path(name))
    rehearsal(pathlib.Path(name) / "rehearsal")
