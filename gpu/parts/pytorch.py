"""PyTorch on this device: whether two of its ranks can share it, and what recording them changes."""
import json
import pathlib
import shutil
import statistics
import tempfile

from parts.recorder import ROOT

HERE = pathlib.Path(__file__).resolve().parent
JOB = ROOT / "bench" / "peers" / "torch_ddp_gpu.py"


def probe(recorder, limit=120):
    """Two ranks of PyTorch, one all_reduce, nothing of Lockstep."""
    title = "PyTorch alone, 2 ranks"
    if recorder.passes_over(title):
        return
    python = recorder.options.python
    if shutil.which(python) is None:
        recorder.not_done(title, f"there is no {python}")
        return
    folder = pathlib.Path(tempfile.mkdtemp(dir=recorder.scratch))
    code, said = recorder.command([python, HERE / "torch_probe.py", recorder.backend, folder], limit)
    answer = folder / "answer.json"
    found = json.loads(answer.read_text()) if answer.exists() else {}
    if "not_done" in found:
        recorder.not_done(title, found["not_done"])
        return
    recorder.note(title, code, **found, said=said.splitlines()[-12:] if code else [])


def play(recorder, model, steps, n_ranks, trace=None, words=(), digests=""):
    """The job, recorded where `trace` is given. Returns: exit code, what it printed, and all it said."""
    python = recorder.options.python
    job = [python, JOB, model, steps]
    if n_ranks > 1:
        job = [python, HERE / "apart.py", n_ranks, *job]
    if trace:
        job = [python, "-m", "lockstep", "record", "-o", trace, *words, "--", *job]
    paths = [str(recorder.build / "python"), recorder.environment.get("PYTHONPATH", "")]
    code, said = recorder.command(job, 90, {"PYTHONPATH": ":".join(filter(None, paths)), "REPEATABLE": "1",
                                            "NCCL_DEBUG": "WARN", "LOCKSTEP_DIGESTS": digests})
    lines = [line for line in said.splitlines() if line.startswith('{"seconds_per_step"')]
    return code, json.loads(lines[-1]) if lines else {}, said


def new_trace(recorder):
    return pathlib.Path(tempfile.mkdtemp(dir=recorder.scratch)) / "trace"


def digests_in(trace):
    """By rank: what every event with digests says of them, and why they were computed on the host, if they were."""
    found, reasons = [], set()
    for file in sorted(trace.glob("*.jsonl")):
        events = [json.loads(line) for line in file.read_text().splitlines()]
        reasons.update(event["text"] for event in events if event.get("kind") == "log" and "on the host" in event["text"])
        found.append([(event["kind"], event.get("point"), event["names"], event["digests"]) for event in events
                      if "digests" in event])
    return found, sorted(reasons)


def recorded(recorder):
    """Recording must not change a bit, the laws must find nothing, and digests that the device computes are those
    of the host."""
    for model, n_ranks in [("mlp", 2), ("gpt", 2), ("cnn", 2)]:
        title = f"PyTorch DDP recorded, {model}, {n_ranks} ranks"
        if recorder.passes_over(title, on_gpu=True):
            return
        trace, on_host = new_trace(recorder), new_trace(recorder)
        plain_code, plain, said_plain = play(recorder, model, 3, n_ranks)
        code, watched, said = play(recorder, model, 3, n_ranks, trace)
        host_code, _, said_host = play(recorder, model, 3, n_ranks, on_host, digests="host")
        judged, report = recorder.command([recorder.build / "bin" / "lockstep", "check", trace], 60)
        alike = plain.get("parameters", "-") == watched.get("parameters")
        compared, verdict = compare_digests(trace, on_host)
        codes = [plain_code, code, host_code, judged]
        good = alike and not any(codes) and verdict == "equal"
        wrong = next((text for ended, text in zip(codes, [said_plain, said, said_host, ""]) if ended), said)
        recorder.note(title, 0 if good else 1, parameters=[plain.get("parameters"), watched.get("parameters")],
                      exit_codes=codes, torch=plain.get("torch"), digests=verdict, n_digests=compared,
                      report=report.splitlines()[:20], said=[] if good else wrong.splitlines()[-12:])


def compare_digests(on_device, on_host):
    """How many digests of the device were compared with the host's, and what came of it."""
    if not (on_device.exists() and on_host.exists()):
        return 0, "no trace"
    ours, reasons = digests_in(on_device)
    theirs, asked = digests_in(on_host)
    n_digests = sum(len(event[-1]) for rank in ours for event in rank)
    if reasons:
        return n_digests, reasons[0]
    if not asked:
        return n_digests, "the host was not asked"
    if ours == theirs and n_digests:
        return n_digests, "equal"
    first = next((f"rank {rank}: {a[:3]} and {b[:3]}" for rank, (one, other) in enumerate(zip(ours, theirs))
                  for a, b in zip(one, other) if a != b), "other counts of events")
    return n_digests, f"first difference: {first}"


# Steps, and as `play` takes them. A budget learns for 64 steps what it can afford; copies of large tensors take a
# third of a second per step.
KINDS = {"plain": (600, {}), "recorded": (600, {}), "recorded, budget of 5 %": (600, {"words": ("--budget", 0.05)}),
         "recorded, digests on the host": (20, {"digests": "host"})}


def cost(recorder):
    """Steps by the clock, recorded in several ways and not, alternating. Run it when nothing else does."""
    for model in ["mlp", "gpt", "cnn"]:
        title = f"cost of recording {model}"
        if recorder.passes_over(title, on_gpu=True):
            continue
        taken = {kind: [] for kind in KINDS}
        code, said = 0, ""
        for _ in range(recorder.options.rounds):
            for kind, (steps, how) in KINDS.items():
                trace = None if kind == "plain" else new_trace(recorder)
                ended, found, said_now = play(recorder, model, steps, 1, trace, **how)
                code, said = (ended, said_now) if ended and not code else (code, said)
                if found:
                    taken[kind].append(found["seconds_per_step"])
        plain = statistics.median(taken["plain"] or [0])
        ratios = {kind: statistics.median(times) / plain for kind, times in taken.items() if times and plain}
        recorder.note(title, code, ratios=ratios, seconds_per_step=taken, said=said.splitlines()[-12:])
