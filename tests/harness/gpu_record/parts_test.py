#!/usr/bin/env python3
"""What gpu/parts makes of answers that no machine without a GPU gives: a server that talks like NCCL's
port, a checker of kernels that is a script, a PyTorch that is missing or wrong, tests that were skipped; and
that what one run recorded stays when another asks again for a part."""
import json
import os
import pathlib
import socket
import sys
import tempfile
import threading
import types

sys.path.insert(0, sys.argv[1])
from parts import faults, jobs, kernels, memory, pytorch  # noqa: E402
from parts.recorder import Recorder  # noqa: E402

MEMCHECK = "echo '[  PASSED  ] 40 tests.'; echo '========= ERROR SUMMARY: {} errors'; exit {}"
RACECHECK = ("echo '[  PASSED  ] 40 tests.'; "
             "echo '========= RACECHECK SUMMARY: {} hazards displayed (0 errors, {} warnings)'")


def expect(condition, what):
    if not condition:
        sys.exit(f"parts_test: {what}")


def recorder_of(folder, rehearse=False, python=sys.executable):
    recorder = Recorder(types.SimpleNamespace(rehearse=rehearse, build=folder, budget=60, python=python, short=True,
                                              steps="", version="v"))
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
    faults.answer_of = lambda file, rank: {"status": statuses[rank]}
    faults.hang(recorder)
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

def check_all(recorder):
    for tool in ("memcheck", "racecheck"):
        kernels.check(recorder, tool)


def checked(folder, text):
    program(folder / "path" / kernels.CHECKER, text)
    recorder = recorder_of(folder)
    recorder.environment["PATH"] = f"{folder / 'path'}:{os.environ['PATH']}"
    check_all(recorder)
    return recorder.steps[0]


def checker(folder):
    recorder = recorder_of(folder)
    check_all(recorder)
    expect([step["exit_code"] for step in recorder.steps] == [77, 77], recorder.steps)
    program(folder / "path" / kernels.CHECKER, "exit 0")
    recorder = recorder_of(folder)
    recorder.environment["PATH"] = f"{folder / 'path'}:{os.environ['PATH']}"
    check_all(recorder)
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
    check_all(recorder)
    expect("a rehearsal has no GPU" in recorder.steps[0]["said"], recorder.steps)


# ---- programs of tests

def ran(folder, report, code):
    program(folder / "bin" / "some_test", f"cat > \"$(echo $2 | cut -d: -f2)\" <<'E'\n{json.dumps(report)}\nE\nexit {code}")
    recorder = recorder_of(folder)
    kernels.tests(recorder, "some tests", "some_test", "*", 10)
    return recorder.steps[0]


def tests(folder):
    good = {"name": "A", "status": "RUN", "result": "COMPLETED"}
    skipped = {"name": "B", "status": "RUN", "result": "SKIPPED", "skipped": [{"message": "no device"}]}
    failed = {"name": "C", "status": "RUN", "result": "COMPLETED", "failures": [{"failure": "place\nreason"}]}
    left_out = {"name": "D", "status": "NOTRUN", "result": "SUPPRESSED"}
    for these, code, expected in [([good, left_out], 0, (0, "1 passed, 0 failed, 0 skipped")),
                                  ([good, skipped], 0, (77, "1 passed, 0 failed, 1 skipped")),
                                  ([good, failed], 1, (1, "1 passed, 1 failed, 0 skipped"))]:
        step = ran(folder, {"testsuites": [{"name": "S", "testsuite": these}]}, code)
        expect((step["exit_code"], step["verdict"]) == expected, step)
    expect(step["failed"] == {"S.C": ["place", "reason"]}, step)
    program(folder / "bin" / "some_test", "exit 139")
    recorder = recorder_of(folder)
    kernels.tests(recorder, "some tests", "some_test", "*", 10)
    expect(recorder.steps[0]["exit_code"] == 139 and recorder.steps[0]["verdict"] == "no answer", recorder.steps)


# ---- scenarios

def scenarios(folder):
    """What differs on the device is asked of Gloo; what is refused was not compared."""
    for script, code, more in [("echo 'equal: 12 events on 3 ranks, sim (a) and b'", 0, {}),
                               ("echo 'first difference: '$4; exit 1", 1, {"gloo": "first difference: gloo"}),
                               ("echo 'no such key'; exit 2", 77, {"step": jobs.SHORT + ", its own ranks"})]:
        program(folder / "bin" / "lockstep", script)
        recorder = recorder_of(folder)
        jobs.cross_check(recorder, 3)
        step = recorder.steps[0]
        expect(step["exit_code"] == code and all(step[key] == value for key, value in more.items()), step)
    program(folder / "bin" / "lockstep", "echo 'equal: 12 events on 3 ranks, sim (a) and b'")
    recorder = recorder_of(folder)
    jobs.cross_check(recorder, 3)
    expect(recorder.steps[0]["verdict"] == "equal: sim (a) and b", recorder.steps)


# ---- managed memory beside plain

def managed(folder):
    """What the bench printed is kept; its words, where it ended otherwise."""
    def measured():
        recorder = recorder_of(folder)
        memory.memory(recorder)
        return recorder.steps[0]

    step = measured()
    expect(step["exit_code"] == 77 and "is not built" in step["said"], step)
    for script, code, more in [
            ("echo 'a warning' >&2; echo '{\"loss\": {\"managed\": {\"best\": 0.5}}}'", 0,
             {"loss": {"managed": {"best": 0.5}}, "said": []}),
            ("echo 'gpu_memory_bench: wrong result: a page' >&2; exit 1", 1,
             {"said": ["gpu_memory_bench: wrong result: a page"]}),
            ("echo 'gpu_memory_bench: no driver' >&2; exit 3", 77, {"said": "not done: gpu_memory_bench: no driver"})]:
        program(folder / "bin" / "gpu_memory_bench", script)
        step = measured()
        expect(step["exit_code"] == code and all(step[key] == value for key, value in more.items()), step)


# ---- the file

def kept(folder):
    """Written after each step; a step that is asked again replaces its answer, and nothing else."""
    def begun(version, *parts):
        recorder = recorder_of(folder)
        recorder.options.version = version
        recorder.recording["environment"] = {"gpu": "A GPU, 1"}
        recorder.keep_in(folder / "kept")
        for part in parts:
            recorder.part_is(part)
            recorder.keep_launch({"title": "launch", "n_parts": len(parts)})
            recorder.note("step", len(parts))
        return recorder

    def versions(path, of):
        return [(one["part"], one["version"]) for one in json.loads(path.read_text())[of]]

    begun("1", "one", "two", "three")
    path = begun("2", "two").path
    expect(path.name.endswith("-a-gpu.json"), path)
    for of in ("steps", "launches"):
        expect(versions(path, of) == [("one", "1"), ("two", "2"), ("three", "1")], path.read_text())
    late = begun("3")
    late.end = 0
    for part in ("three", "four"):
        late.part_is(part)
        expect(late.passes_over("step"), "there was no time")
    expect(versions(path, "steps")[2:] == [("three", "1"), ("four", "3")], path.read_text())
    late.end, late.options.steps = late.began + 60, "^other"
    expect(late.passes_over("step") and not late.passes_over("other step"), "a step not asked for is passed over")


# ---- PyTorch

def torch(folder):
    for python, said in {folder / "none": "there is no", sys.executable: "has no PyTorch"}.items():
        recorder = recorder_of(folder, python=str(python))
        recorder.environment["PYTHONPATH"] = str(folder / "modules")
        (folder / "modules").mkdir(exist_ok=True)
        (folder / "modules" / "torch.py").write_text("raise ImportError('none here')\n")
        pytorch.probe(recorder)
        expect(recorder.steps[0]["exit_code"] == 77 and said in recorder.steps[0]["said"], recorder.steps)
    program(folder / "broken", "echo some words; exit 5")
    recorder = recorder_of(folder, python=str(folder / "broken"))
    pytorch.probe(recorder)
    expect(recorder.steps[0]["exit_code"] == 5 and recorder.steps[0]["said"] == ["some words"], recorder.steps)
    program(folder / "slow", "sleep 60")
    recorder = recorder_of(folder, python=str(folder / "slow"))
    pytorch.probe(recorder, limit=0.2)
    expect(recorder.steps[0]["exit_code"] == 124, recorder.steps)


def digests(folder):
    """Those of the device are compared with the host's, where each says that it was asked."""
    def trace(name, reason, *values):
        kept = folder / name
        kept.mkdir()
        events = [{"kind": "param", "point": "step", "names": ["w"], "digests": [value]} for value in values]
        if reason:
            events.append({"kind": "log", "text": "digests of tensors on GPUs are computed on the host: " + reason})
        (kept / "rank-0.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
        return kept

    host, silent = trace("host", "because", "a", "b"), trace("silent", "", "a", "b")
    for device, other, expected in [(trace("good", "", "a", "b"), host, (2, "equal")),
                                    (trace("short", "", "a"), host, (1, "first difference: other counts of events")),
                                    (trace("empty", ""), trace("none", "because"), (0, "first difference: other counts of events")),
                                    (trace("copied", "an old driver", "a", "b"), host, (2, "digests of tensors on GPUs "
                                                                                        "are computed on the host: an old driver")),
                                    (trace("alone", "", "a", "b"), silent, (2, "the host was not asked")),
                                    (folder / "nowhere", host, (0, "no trace"))]:
        expect(pytorch.compare_digests(device, other) == expected, (device.name, expected))
    compared, verdict = pytorch.compare_digests(trace("wrong", "", "a", "c"), host)
    expect(compared == 2 and verdict.startswith("first difference: rank 0: ('param', 'step'"), verdict)


faults.PAUSE = 0
with tempfile.TemporaryDirectory() as name:
    tempfile.tempdir = name
    for what in (port, checker, tests, scenarios, managed, kept, torch, digests):
        what(pathlib.Path(name))
