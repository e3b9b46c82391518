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


def play(recorder, model, steps, n_ranks, trace=None):
    """The job, recorded where `trace` is given. Returns: exit code, what it printed, and all it said."""
    python = recorder.options.python
    words = [python, JOB, model, steps]
    if n_ranks > 1:
        words = [python, HERE / "apart.py", n_ranks, *words]
    if trace:
        words = [python, "-m", "lockstep", "record", "-o", trace, "--", *words]
    paths = [str(recorder.build / "python"), recorder.environment.get("PYTHONPATH", "")]
    code, said = recorder.command(words, 90, {"PYTHONPATH": ":".join(filter(None, paths)), "REPEATABLE": "1",
                                              "NCCL_DEBUG": "WARN"})
    lines = [line for line in said.splitlines() if line.startswith('{"seconds_per_step"')]
    return code, json.loads(lines[-1]) if lines else {}, said


def recorded(recorder):
    """Recording must not change a bit, and the laws must find nothing."""
    for model, n_ranks in [("mlp", 2), ("gpt", 2), ("cnn", 2)]:
        title = f"PyTorch DDP recorded, {model}, {n_ranks} ranks"
        if recorder.passes_over(title, on_gpu=True):
            return
        trace = pathlib.Path(tempfile.mkdtemp(dir=recorder.scratch)) / "trace"
        plain_code, plain, said_plain = play(recorder, model, 3, n_ranks)
        code, watched, said = play(recorder, model, 3, n_ranks, trace)
        judged, report = recorder.command([recorder.build / "bin" / "lockstep", "check", trace], 60)
        alike = plain.get("parameters", "-") == watched.get("parameters")
        good = alike and not (plain_code or code or judged)
        recorder.note(title, 0 if good else 1, parameters=[plain.get("parameters"), watched.get("parameters")],
                      exit_codes=[plain_code, code, judged], torch=plain.get("torch"),
                      report=report.splitlines()[:20],
                      said=[] if good else (said_plain if plain_code else said).splitlines()[-12:])


def cost(recorder):
    """Steps by the clock, recorded and not, alternating. Run it when nothing else does."""
    for model in ["mlp", "gpt", "cnn"]:
        title = f"cost of recording {model}"
        if recorder.passes_over(title, on_gpu=True):
            continue
        taken = {"plain": [], "recorded": []}
        code, said = 0, ""
        for _ in range(recorder.options.rounds):
            for kind, times in taken.items():
                trace = pathlib.Path(tempfile.mkdtemp(dir=recorder.scratch)) / "trace" if kind == "recorded" else None
                ended, found, said = play(recorder, model, 30, 1, trace)
                code = code or ended
                if found:
                    times.append(found["seconds_per_step"])
        ratio = statistics.median(taken["recorded"]) / statistics.median(taken["plain"]) if all(taken.values()) else None
        recorder.note(title, code, ratio=ratio, seconds_per_step=taken, said=said.splitlines()[-12:] if code else [])
