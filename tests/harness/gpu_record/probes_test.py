#!/usr/bin/env python3
"""What gpu/probes.py makes of answers that no machine without a GPU gives: a server that talks like
NCCL's port, a checker of kernels that is a script, a PyTorch that is missing or wrong."""
import os
import pathlib
import socket
import sys
import tempfile
import threading
import types

sys.path.insert(0, sys.argv[1])
import probes  # noqa: E402
import record  # noqa: E402

MEMCHECK = "echo '[  PASSED  ] 40 tests.'; echo '========= ERROR SUMMARY: {} errors'; exit {}"
RACECHECK = ("echo '[  PASSED  ] 40 tests.'; "
             "echo '========= RACECHECK SUMMARY: {} hazards displayed (0 errors, {} warnings)'")


def expect(condition, what):
    if not condition:
        sys.exit(f"probes_test: {what}")


def recorder_of(folder, rehearse=False, python=sys.executable):
    recorder = record.Recorder(types.SimpleNamespace(rehearse=rehearse, build=folder, budget=60, python=python))
    recorder.environment = {**os.environ}
    return recorder


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


# ---- NCCL's port

def serve(words):
    """A server that answers one question after another with `words`. Returns it and its questions."""
    server = socket.create_server(("localhost", 0))
    questions = []

    def answer():
        while True:
            try:
                line, _ = server.accept()
            except OSError:
                return
            with line:
                questions.append(line.recv(100))
                line.sendall(words)

    threading.Thread(target=answer, daemon=True).start()
    os.environ["NCCL_RAS_ADDR"] = f"localhost:{server.getsockname()[1]}"
    return server, questions


def hang_of(folder, statuses, running):
    """The step over ranks that are not there: they run for as many looks as `running` says."""
    recorder = recorder_of(folder)

    def alone(n_ranks, arguments, limit, extra, meanwhile):
        looks = iter([True] * running + [False] * 100)
        meanwhile(lambda: next(looks))
        return [0] * n_ranks

    recorder.alone = alone
    recorder.answer_of = lambda file, rank: {"status": statuses[rank]}
    probes.ras_of_a_hang(recorder, 10)
    return recorder.steps[-1]


def port(folder):
    server, questions = serve(b"Communicators... (0.00s)\n 1 3 1 MISMATCH\n")
    hung = ["timed_out"] * 3
    step = hang_of(folder, hung, 3)
    expect(step["exit_code"] == 0 and step["last"]["text"][1] == " 1 3 1 MISMATCH", step)
    expect(questions[0] == b"verbose status\n", questions)
    step = hang_of(folder, hung, 1)  # The ranks were gone when the answer came.
    expect(step["exit_code"] == 77 and "no answer during the hang" in step["said"], step)
    step = hang_of(folder, ["ok", "peer_lost", "ok"], 3)
    expect(step["exit_code"] == 77 and "no rank hung" in step["said"], step)
    server.close()
    os.environ["NCCL_RAS_ADDR"] = "localhost:1"
    step = hang_of(folder, hung, 3)
    expect(step["exit_code"] == 77 and "Refused" in step["said"], step)
    os.environ["NCCL_RAS_ADDR"] = "nonsense"
    step = hang_of(folder, hung, 3)
    expect(step["exit_code"] == 77 and "ValueError" in step["said"], step)


# ---- the checker

def checked(folder, text):
    program(folder / "path" / probes.CHECKER, text)
    recorder = recorder_of(folder)
    recorder.environment["PATH"] = f"{folder / 'path'}:{os.environ['PATH']}"
    probes.check_kernels(recorder)
    return recorder.steps[0]


def checker(folder):
    recorder = recorder_of(folder)
    probes.check_kernels(recorder)
    expect([step["exit_code"] for step in recorder.steps] == [77, 77], recorder.steps)
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{folder / 'path'}:{path}"
    program(folder / "path" / probes.CHECKER, "exit 0")
    recorder = recorder_of(folder)
    probes.check_kernels(recorder)
    expect("is not built" in recorder.steps[0]["said"], recorder.steps)
    program(folder / "bin" / "gpu_cuda_test", "")
    for text, verdict in {
            MEMCHECK.format(0, 0): "clean, 40 tests",
            MEMCHECK.format(2, 86): "ERROR SUMMARY: 2 errors",
            MEMCHECK.format(0, 1): "no finding, but the tests ended with 1",
            RACECHECK.format(0, 0): "clean, 40 tests",
            RACECHECK.format(1, 1): "RACECHECK SUMMARY: 1 hazards displayed (0 errors, 1 warnings)",
            "echo '========= ERROR SUMMARY: 0 errors'": "no test ran",
            "echo '[  PASSED  ] 0 tests.'; echo '========= ERROR SUMMARY: 0 errors'": "no test ran",
            "echo '[  PASSED  ] 40 tests.'": "no summary"}.items():
        step = checked(folder, text)
        expect(step["verdict"] == verdict, f"{text}: {step}")
    recorder = recorder_of(folder, rehearse=True)
    probes.check_kernels(recorder)
    expect("a rehearsal has no GPU" in recorder.steps[0]["said"], recorder.steps)
    os.environ["PATH"] = path


# ---- PyTorch

def torch(folder):
    for python, said in {folder / "none": "there is no", sys.executable: "has no PyTorch"}.items():
        recorder = recorder_of(folder, python=str(python))
        recorder.environment["PYTHONPATH"] = str(folder / "modules")
        (folder / "modules").mkdir(exist_ok=True)
        (folder / "modules" / "torch.py").write_text("raise ImportError('none here')\n")
        probes.torch_probe(recorder)
        expect(recorder.steps[0]["exit_code"] == 77 and said in recorder.steps[0]["said"], recorder.steps)
    program(folder / "broken", "echo some words; exit 5")
    recorder = recorder_of(folder, python=str(folder / "broken"))
    probes.torch_probe(recorder)
    expect(recorder.steps[0]["exit_code"] == 5 and recorder.steps[0]["said"] == ["some words"], recorder.steps)
    program(folder / "slow", "sleep 60")
    recorder = recorder_of(folder, python=str(folder / "slow"))
    probes.torch_probe(recorder, limit=0.2)
    expect(recorder.steps[0]["exit_code"] == 124, recorder.steps)


probes.PAUSE = 0
with tempfile.TemporaryDirectory() as name:
    tempfile.tempdir = name
    for what in (port, checker, torch):
        what(pathlib.Path(name))
