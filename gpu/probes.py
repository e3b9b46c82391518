"""What gpu/record.py asks of others than Lockstep: PyTorch, NCCL's own view of a hang, and NVIDIA's
checker of kernels. Each step is noted, or noted as not done with the reason; none makes the script fail.
"""
import json
import os
import pathlib
import re
import shutil
import socket
import tempfile
import time

TORCH_PROBE = pathlib.Path(__file__).resolve().parent / "torch_probe.py"
CHECKER = "compute-sanitizer"
HANGS = ["skip", "root", "count-much"]  # Faults that may hang, tried in this order.
PAUSE = 1.0  # Seconds between two questions to NCCL.
FOUND = 86  # What the checker shall end with when it found something: no test ends so.


# ---- whether PyTorch's ranks can share this GPU

def torch_probe(recorder, limit=120):
    title = "PyTorch alone, 2 ranks"
    if recorder.out_of_time(title):
        return
    python = recorder.options.python
    if shutil.which(python) is None:
        recorder.not_done(title, f"there is no {python}")
        return
    folder = pathlib.Path(tempfile.mkdtemp(dir=recorder.scratch))
    code, said = recorder.command([python, TORCH_PROBE, recorder.backend, folder], limit)
    answer = folder / "answer.json"
    found = json.loads(answer.read_text()) if answer.exists() else {}
    if "not_done" in found:
        recorder.not_done(title, found["not_done"])
        return
    recorder.note(title, code, **found, said=said.splitlines()[-12:] if code else [])


# ---- what NCCL itself says about a hang

def ras_address():
    """Where NCCL answers: NCCL_RAS_ADDR, or its default."""
    host, _, port = os.environ.get("NCCL_RAS_ADDR", "localhost:28028").rpartition(":")
    return host.strip("[]"), int(port)


def ask_ras(limit):
    """One question to NCCL. Returns its text, empty if there was none, and why."""
    end = time.monotonic() + limit
    received = b""
    try:
        with socket.create_connection(ras_address(), timeout=limit) as line:
            line.sendall(b"verbose status\n")
            while time.monotonic() < end:
                line.settimeout(max(0.1, end - time.monotonic()))
                part = line.recv(65536)
                if not part:
                    break
                received += part
    except (OSError, ValueError) as error:
        return received.decode(errors="replace"), f"{type(error).__name__}: {error}"
    return received.decode(errors="replace"), ""


def ras_of_a_hang(recorder, hang=25):
    """Ranks diverge, nothing compares: while they hang, NCCL is asked which ranks lag."""
    title = "RAS of a hang"
    for fault in HANGS:
        if recorder.out_of_time(title):
            return
        found = ask_during(recorder, fault, hang)
        # Faults that NCCL ends by itself, or lets pass, do not hang: try the next one.
        if "timed_out" not in found["statuses"]:
            continue
        reason = found.pop("reason")
        if found["n_answers"] > 0:
            recorder.note(title, 0, **found)
        else:
            recorder.not_done(title, f"no answer during the hang ({reason})", **found)
        return
    recorder.not_done(title, f"no rank hung ({', '.join(HANGS)})")


def ask_during(recorder, fault, hang):
    """Plays a fault and asks until it is over. Keeps the last answer: the one deepest in the hang."""
    found = {"fault": fault, "n_answers": 0, "reason": "the port closed without an answer"}
    start = time.monotonic()

    def ask(running):
        while running() and time.monotonic() < start + hang:
            text, reason = ask_ras(10)
            # An answer after the last rank exited is not about the hang.
            if text and running():
                found["n_answers"] += 1
                found["last"] = {"seconds": round(time.monotonic() - start, 1), "text": text.splitlines()}
            found["reason"] = reason or found["reason"]
            time.sleep(PAUSE)

    file = recorder.scratch / f"ras-{fault}"
    found["exit_codes"] = recorder.alone(3, ["fault", fault, file, hang, "unchecked"], hang + 20,
                                         recorder.one_ring, ask)
    found["statuses"] = [recorder.answer_of(file, rank)["status"] for rank in range(3)]
    return found


# ---- whether our kernels touch memory that is not theirs, or race

def check_kernels(recorder, limit=200):
    program = recorder.build / "bin" / "gpu_cuda_test"
    for tool in ("memcheck", "racecheck"):
        title = f"{CHECKER} {tool}"
        if recorder.out_of_time(title):
            continue
        if recorder.backend != "nccl":
            recorder.not_done(title, "a rehearsal has no GPU")
        elif shutil.which(CHECKER) is None:
            recorder.not_done(title, f"{CHECKER} is not on the PATH")
        elif not program.exists():
            recorder.not_done(title, f"{program.name} is not built")
        else:
            words = [CHECKER, "--tool", tool, "--error-exitcode", FOUND, program]
            code, said = recorder.command(words, limit)
            recorder.note(title, code, verdict=verdict_of(code, said), said=said.splitlines()[-12:])


def verdict_of(code, said):
    """What the checker's words and exit code come to. `clean` needs both, and tests that ran."""
    summary = re.findall(r"^=+ *((?:ERROR|RACECHECK) SUMMARY: .*)$", said, re.MULTILINE)
    passed = re.search(r"^\[  PASSED  \] (\d+) test", said, re.MULTILINE)
    if code == 124:
        return "out of time"
    if not summary:
        return "no summary"
    counts = [int(number) for number in re.findall(r"\d+", summary[-1])]
    if code == FOUND or any(counts):
        return summary[-1]
    if code != 0:
        return f"no finding, but the tests ended with {code}"
    return f"clean, {passed.group(1)} tests" if passed and int(passed.group(1)) > 0 else "no test ran"
