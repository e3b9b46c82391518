#!/usr/bin/env python3
"""Records what this machine's GPU does with Lockstep: `gpu/record.py BUILD_FOLDER`.

Asks, part by part: NCCL's collectives and the order in which it adds; what ranks that diverge or die are
given; our kernels, beside the processor's and under NVIDIA's checker; scenarios against the simulator; PyTorch
on the same device, recorded and not; memory and steps by the clock. It all goes into one dated file in
gpu/recordings, written anew after every step: what is cut off loses that step, and --parts asks again for
some. What fails is recorded as failed, what could not be tried with the reason. Without a GPU it says
so, exits with 3 and writes nothing. Ranks share the GPU by turns, so times mean something only in the
parts that run alone, after all others.

--rehearse runs the same steps over Gloo, to try the script; its result is not a recording.
"""
import argparse
import concurrent.futures
import pathlib
import sys

from parts import collectives, faults, jobs, kernels, machine, memory, pytorch
from parts.recorder import ROOT, Recorder

# What runs side by side; the parts of a lane follow one another. Few lanes have ranks on the device, for
# these wait for each other's turns on it.
LANES = [
    {"collectives": collectives.collectives, "sizes": collectives.sizes},
    {"scenarios": jobs.scenarios(3)},
    {"scenarios of 4": jobs.scenarios(4)},
    {"promises": kernels.promises("Three", "One", "Two")},
    {"promises of more": kernels.promises("Four", "Eight")},
    {"torch": pytorch.probe, "source": jobs.same_source, "recorded": pytorch.recorded},
    {"unchecked": faults.unchecked_faults, "checked": faults.checked_faults, "hang": faults.hang},
    {"kernels": kernels.kernels, "memcheck": kernels.checker("memcheck"),
     "synccheck": kernels.checker("synccheck")},
    {"fingerprints": kernels.fingerprints, "initcheck": kernels.checker("initcheck"),
     "racecheck": kernels.checker("racecheck")},
]
ALONE = {"memory": memory.memory, "steps": jobs.steps, "cost": pytorch.cost}


def run_lane(recorder, lane, chosen):
    for name, part in lane.items():
        if name in chosen:
            recorder.part_is(name)
            try:
                part(recorder)
            except Exception as error:  # pylint: disable=broad-except  # Of one part: the others go on.
                recorder.note(name, 1, said=f"{type(error).__name__}: {error}")


def run(recorder, chosen, alone):
    """`alone`: seconds kept for the parts that run by themselves."""
    recorder.end -= alone
    with concurrent.futures.ThreadPoolExecutor(len(LANES)) as pool:
        for done in [pool.submit(run_lane, recorder, lane, chosen) for lane in LANES]:
            done.result()
    recorder.end += alone
    run_lane(recorder, ALONE, chosen)


def parse():
    every = [name for lane in [*LANES, ALONE] for name in lane]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="a build folder of this tree")
    parser.add_argument("--out", default=ROOT / "gpu" / "recordings", type=pathlib.Path)
    parser.add_argument("--budget", default=540, type=float, help="seconds for everything (540)")
    parser.add_argument("--alone", default=120, type=float, help="of these, for what runs by itself (120)")
    parser.add_argument("--parts", default=",".join(every), help="which to ask: " + ", ".join(every))
    parser.add_argument("--steps", default="", help="only those whose title this regular expression finds")
    parser.add_argument("--rounds", default=2, type=int, help="how often steps are timed (2)")
    parser.add_argument("--short", action="store_true", help="a few steps of each kind")
    parser.add_argument("--rehearse", action="store_true", help="over Gloo; needs --out")
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has PyTorch (this one)")
    parser.add_argument("--version", default="", help="of Lockstep, where this is not a git checkout")
    options = parser.parse_args()
    options.parts = options.parts.split(",")
    unknown = [name for name in options.parts if name not in every]
    if unknown:
        parser.error(f"no part is called '{unknown[0]}': {', '.join(every)}")
    if options.rehearse and options.out == parser.get_default("out"):
        parser.error("a rehearsal is not a recording: name another file with --out")
    return options


def main():
    options = parse()
    recorder = Recorder(options)
    try:
        program = recorder.build / "bin" / "lockstep_gpu_record"
        code, said = recorder.command([program, "obstacle", recorder.backend], 60)
        if code != 0:
            print("gpu/record.py: " + said.strip().split(": ", 1)[-1], file=sys.stderr)
            return 3
        recorder.recording["environment"] = machine.facts(recorder)
        recorder.keep_in(options.out)
        run(recorder, options.parts, options.alone if set(ALONE) & set(options.parts) else 0)
        recorder.save()
    finally:
        recorder.end_all()
    print(recorder.path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
