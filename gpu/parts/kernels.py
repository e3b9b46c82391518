"""Our kernels on the device: their tests, and NVIDIA's checker over them."""
import json
import re
import shutil

from parts.recorder import NOT_DONE

CHECKER = "compute-sanitizer"
FOUND = 86  # What the checker shall end with when it found something: no test ends so.
PROGRAM = "gpu_cuda_test"
FINGERPRINTS = "gpu_fingerprint_test"
TOOLS = ["memcheck", "racecheck", "initcheck", "synccheck"]
MOST_LINES = 80  # Of the checker, the first ones: they name the place.
ON_THE_DEVICE = "*TheDevice*"
# Under racecheck whole jobs and products of real size take minutes, of operations that other tests have small.
CHOSEN = {"racecheck": ON_THE_DEVICE + "-*TrainingTest*:*StrictProducts*"}


# ---- tests

def tests(recorder, title, name, chosen, limit):
    """Runs a program of GoogleTest and notes how its tests ended."""
    if recorder.passes_over(title):
        return
    program = recorder.build / "bin" / name
    if not program.exists():
        recorder.not_done(title, f"{name} is not built")
        return
    file = recorder.scratch / f"{title.replace(' ', '-')}.json"
    code, said = recorder.command([program, f"--gtest_filter={chosen}", f"--gtest_output=json:{file}"], limit)
    found = outcomes(json.loads(file.read_text())) if file.exists() else {"verdict": "no answer"}
    if code == 0 and found.get("skipped"):
        code = NOT_DONE
    recorder.note(title, code, **found, said=said.splitlines()[-40:] if code else [])


def outcomes(report):
    """The verdict on a report of GoogleTest, and what failed or was skipped, with the first reason of each."""
    passed, failed, skipped = 0, {}, {}
    for suite in report["testsuites"]:
        for test in suite["testsuite"]:
            name = f"{suite['name']}.{test['name']}"
            if test.get("failures"):
                failed[name] = test["failures"][0]["failure"].splitlines()[:12]
            elif test["result"] == "SKIPPED":
                skipped[name] = [one["message"] for one in test.get("skipped", [])][:1]
            elif test["status"] == "RUN":
                passed += 1
    verdict = f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped"
    return {"verdict": verdict, "failed": failed, "skipped": skipped}


def kernels(recorder):
    """Every operation beside the processor's, and whole jobs, in strict and fast arithmetic."""
    tests(recorder, "kernels beside the processor's", PROGRAM, "*", 200)


def fingerprints(recorder):
    """The kernel that takes digests and sketches of PyTorch's tensors, and the checker over it."""
    tests(recorder, "fingerprints beside the processor's", FINGERPRINTS, ON_THE_DEVICE, 60)
    for tool in TOOLS:
        check(recorder, tool, FINGERPRINTS)


def promises(*numbers):
    """The part that asks what a process group promises, over NCCL, with these numbers of ranks on the one GPU."""
    def part(recorder):
        for name in numbers:
            ending = "RankKeepsAllPromises" if name == "One" else "RanksOnOneGpuKeepAllPromises"
            tests(recorder, f"promises of a group, {name.lower()}", "gpu_nccl_library_test",
                  f"NcclLibraryTest.{name}{ending}", 180)
    return part


# ---- whether they touch memory that is not theirs, or race

def checker(tool):
    """The part that asks one of the checker's tools."""
    return lambda recorder: check(recorder, tool)


def check(recorder, tool, name=PROGRAM, limit=240):
    title = f"{CHECKER} {tool}" + (f", {name}" if name != PROGRAM else "")
    if recorder.passes_over(title, on_gpu=True):
        return
    program = recorder.build / "bin" / name
    if shutil.which(CHECKER, path=recorder.environment.get("PATH")) is None:
        recorder.not_done(title, f"{CHECKER} is not on the PATH")
    elif not program.exists():
        recorder.not_done(title, f"{program.name} is not built")
    else:
        words = [CHECKER, "--tool", tool, "--error-exitcode", FOUND, program,
                 f"--gtest_filter={CHOSEN.get(tool, ON_THE_DEVICE)}"]
        code, said = recorder.command(words, limit)
        lines = said.splitlines()
        found = [line for line in lines if line.startswith("=========")][:MOST_LINES] if code else []
        recorder.note(title, code, verdict=verdict_of(code, said), found=found, said=lines[-12:])


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
