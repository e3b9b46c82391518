"""Ranks that diverge or die: what each of them is given, and what NCCL itself says while they hang."""
import json
import os
import pathlib
import socket
import time

from parts.recorder import ONE_RING

FAULTS = ["op", "dtype", "count", "count-much", "root", "swap", "skip", "kill", "absent"]
HANGS = ["absent", "skip"]  # Faults that may hang, tried in this order.
LIMIT = 40  # Seconds: the absent rank comes after 20 and has a deadline of 6 then.
PAUSE = 1.0  # Seconds between two questions to NCCL.


def answer_of(file, rank):
    path = pathlib.Path(f"{file}.{rank}")
    return json.loads(path.read_text()) if path.exists() else {"status": "no answer"}


def fault(recorder, name, checked):
    title = f"fault {name}, {'checked' if checked else 'unchecked'}"
    if recorder.passes_over(title):
        return
    file = recorder.scratch / f"fault-{name}-{checked}"
    codes = recorder.alone(3, ["fault", name, file, 6, "checked" if checked else "unchecked"], LIMIT, ONE_RING)
    by_rank = {str(rank): answer_of(file, rank) for rank in range(3)}
    answers = {one["status"] for one in by_rank.values()}
    wrong = any(one["status"] == "ok" and not one["right"] for one in by_rank.values())
    verdict = "silent and wrong" if wrong else ", ".join(sorted(answers))
    recorder.note(title, 124 if 124 in codes else 0, verdict=verdict, exit_codes=codes, by_rank=by_rank)


def checked_faults(recorder):
    for name in [FAULTS[0], "kill"] if recorder.options.short else FAULTS:
        fault(recorder, name, True)


def unchecked_faults(recorder):
    for name in [FAULTS[0], "kill"] if recorder.options.short else FAULTS:
        fault(recorder, name, False)


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


def hang(recorder):
    """Ranks diverge, nothing compares: while they hang, NCCL is asked which ranks lag."""
    title = "RAS of a hang"
    lasts = 6 if recorder.options.short else 12
    for name in HANGS:
        if recorder.passes_over(title):
            return
        found = ask_during(recorder, name, lasts)
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


def ask_during(recorder, name, lasts):
    """Plays a fault and asks until it is over. Keeps the last answer: the one deepest in the hang."""
    found = {"fault": name, "n_answers": 0, "reason": "the port closed without an answer"}
    start = time.monotonic()

    def ask(running):
        while running() and time.monotonic() < start + lasts:
            text, reason = ask_ras(10)
            # An answer after the last rank exited is not about the hang.
            if text and running():
                found["n_answers"] += 1
                found["last"] = {"seconds": round(time.monotonic() - start, 1), "text": text.splitlines()}
            found["reason"] = reason or found["reason"]
            time.sleep(PAUSE)

    file = recorder.scratch / f"ras-{name}"
    found["exit_codes"] = recorder.alone(3, ["fault", name, file, lasts, "unchecked"], lasts + 20,
                                         {**ONE_RING, "NCCL_RAS_ENABLE": "1"}, ask)
    found["statuses"] = [answer_of(file, rank)["status"] for rank in range(3)]
    return found
