"""Whole jobs on the device: scenarios against the simulator, one source on three backends, steps by the clock."""
import json
import re
import sys
import tempfile
import tomllib

from parts.recorder import ONE_RING, OUT_OF_TIME, ROOT

FOLDERS = ["jobs", "healthy", "lessons"]
REFUSED = 2
STEPS = 12  # Of whole jobs: ranks that share a GPU take turns on it.
SHORT = "tests/harness/crosscheck/mlp.toml"


def scenarios(n_ranks):
    """The part that runs the scenarios with this many ranks."""
    return lambda recorder: cross_check(recorder, n_ranks)


def cross_check(recorder, n_ranks):
    """What is not equal is asked of Gloo as well: some scenarios end early on processes."""
    for file in files_of(recorder):
        title = f"{file.relative_to(ROOT)}, {n_ranks} ranks"
        # Exact mode holds for the number of ranks that its data were made for.
        exact = "exact" in tomllib.loads(file.read_text())
        code = REFUSED if exact else compare(recorder, file, title, ["--nproc", n_ranks])
        own = f"{file.relative_to(ROOT)}, its own ranks"
        if code == REFUSED and n_ranks == 3 and compare(recorder, file, own, []) == REFUSED:
            recorder.not_done(own, "the scenario is refused")


def files_of(recorder):
    if recorder.options.short:
        return [ROOT / SHORT]
    return [file for folder in FOLDERS for file in sorted((ROOT / "scenarios" / folder).glob("*.toml"))]


def compare(recorder, file, title, ranks):
    """Notes how the scenario compares, unless it is not of that many ranks. Returns: the exit code."""
    if recorder.passes_over(title):
        return 0
    code, said = compared(recorder, file, ranks, recorder.backend)
    if code == REFUSED:
        return code
    more = {}
    if code not in (0, OUT_OF_TIME) and recorder.backend != "gloo":
        more["gloo"] = verdict_of(*compared(recorder, file, ranks, "gloo"))
    recorder.note(title, code, verdict=verdict_of(code, said), **more, said=said.splitlines()[-8:] if code else [])
    return code


def compared(recorder, file, ranks, backend):
    folder = tempfile.mkdtemp(dir=recorder.scratch)  # Some write snapshots where they run.
    steps = ["--set", f"loop.steps={STEPS}"] if file.parent.name == "jobs" else []
    return recorder.command(
        [recorder.build / "bin" / "lockstep", "crosscheck", file, "--against", backend, *ranks, *steps], 60,
        {**ONE_RING, "NCCL_DEBUG": "WARN"}, folder)


def verdict_of(code, said):
    """`equal`, the first difference, or why the scenario was not compared."""
    lines = said.splitlines()
    for beginning in ("equal: ", "first difference: "):
        for line in lines:
            if line.startswith(beginning):
                return re.sub(r"\d+ events on \d+ ranks, ", "", line)
    return lines[0] if lines else f"exit code {code}"


def same_source(recorder):
    """examples/same_source prints the bits that it ends with: simulated, on processes and on the device."""
    title = "one source: sim, gloo, nccl"
    if recorder.passes_over(title):
        return
    program = recorder.build / "bin" / "same_source"
    if not program.exists():
        recorder.not_done(title, "same_source is not built")
        return
    printed = {"sim": recorder.command([program], 30)}
    for backend in ["gloo", *({recorder.backend} - {"gloo"})]:
        printed[backend] = recorder.command(
            [recorder.build / "bin" / "lockstep", "launch", "--standalone", "--nproc-per-node", 2, "--backend",
             backend, "--", program], 60, {**ONE_RING, "NCCL_DEBUG": "WARN"})
    lines = {name: sorted(set(re.findall(r"rank \d+: loss \S+, weight \S+", said)))
             for name, (_, said) in printed.items()}
    alike = len(lines["sim"]) == 2 and all(one == lines["sim"] for one in lines.values())
    recorder.note(title, 0 if alike else 1, lines=lines, exit_codes={name: code for name, (code, _) in printed.items()},
                  said=[] if alike else [said.splitlines()[-6:] for _, said in printed.values()])


def steps(recorder):
    """Steps by the clock, beside PyTorch's on the same device. Run it when nothing else does."""
    for model in ["mlp", "gpt", "cnn"]:
        title = f"steps of {model} beside PyTorch's"
        if recorder.passes_over(title, on_gpu=True):
            continue
        code, said = recorder.command(
            [sys.executable, "bench/gpu_side_by_side.py", "--program", recorder.build / "bin" / "gpu_step_bench",
             "--python", recorder.options.python, "--models", model, "--rounds", recorder.options.rounds, "--steps", 30], 90,
            {"LOCKSTEP_CUDA": "fast", "NCCL_DEBUG": "WARN", "LOCKSTEP_SHARE_GPU": "0"})
        found = json.loads(said[said.index("{"):])[model] if code == 0 else {}
        recorder.note(title, code, **found, said=said.splitlines()[-6:] if code else [])
