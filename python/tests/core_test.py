"""The package without PyTorch: digests, reports, words, the command."""
from __future__ import annotations

import array
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import lockstep
import pytest
from lockstep import _core, enums, trace_completion

ROOT = Path(__file__).resolve().parents[2]
MASK = (1 << 64) - 1


def mix(z: int) -> int:
    """SplitMix64's finaliser, as its author publishes it."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def sm64_by_hand(words_of_elements: list[int], base: int = 0) -> int:
    golden = 0x9E3779B97F4A7C15
    return sum(mix((word + (base + i + 1) * golden) & MASK)
               for i, word in enumerate(words_of_elements)) & MASK


@pytest.mark.parametrize("base", [0, 5])
@pytest.mark.parametrize("n", [0, 1, 7, 64, 1000])
def test_a_digest_is_the_documented_sum(n: int, base: int) -> None:
    values = array.array("f", [0.25 * i - 3 for i in range(n)])
    bits = list(array.array("I", values.tobytes()))
    pointer, count = values.buffer_info()
    assert lockstep.sm64(pointer, count, enums.DType.F32, base) == sm64_by_hand(bits, base)


def test_a_digest_notices_one_changed_bit() -> None:
    values = array.array("f", range(100))
    pointer, count = values.buffer_info()
    before = lockstep.sm64(pointer, count, enums.DType.F32, 0)
    values[99] = 99.00001
    assert lockstep.sm64(pointer, count, enums.DType.F32, 0) != before


def test_the_first_signed_number_of_a_fingerprint_is_the_sum_of_magnitudes() -> None:
    values = array.array("d", [1.5, -2.0, 4.0])
    pointer, count = values.buffer_info()
    digest, l1, *sums = _core.fingerprint(pointer, count, enums.DType.F64)
    assert digest == lockstep.sm64(pointer, count, enums.DType.F64, 0)
    assert l1 == 7.5
    assert len(sums) == 4 and all(abs(value) <= l1 for value in sums)


@pytest.mark.parametrize("arguments", [(0, 3, 0, 0), (0, -1, 0, 0), (0, 0, 99, 0), (0, 0)])
def test_impossible_memory_is_refused(arguments: tuple[int, ...]) -> None:
    with pytest.raises((ValueError, TypeError)):
        _core.sm64(*arguments)


@pytest.mark.parametrize(("header", "enum", "ours"), [
    ("src/tensor/dtype.h", "DType", enums.DType),
    ("src/trace/event_enums.h", "GradPoint", enums.GradPoint),
    ("src/trace/event_enums.h", "StateKind", enums.StateKind),
    ("src/trace/event_enums.h", "StatePoint", enums.StatePoint),
    ("src/trace/event_enums.h", "PhaseKind", enums.PhaseKind),
    ("src/trace/event_enums.h", "ExchangeJoin", enums.ExchangeJoin),
    ("src/trace/event_enums.h", "LossReduction", enums.LossReduction),
    ("src/base/end_reason.h", "EndOutcome", enums.EndOutcome),
    ("src/trace/event_enums.h", "DataPart", enums.DataPart),
    ("src/trace/event_enums.h", "LonePoint", enums.LonePoint),
    ("src/tensor/in_flight.h", "CollectiveOp", enums.CollectiveOp),
    ("src/tensor/detail/kernel_options.h", "ReduceOp", enums.ReduceOp)])
def test_both_languages_number_words_alike(header: str, enum: str, ours: type) -> None:
    text = (ROOT / header).read_text()
    body = re.search(rf"enum class {enum}\b[^{{]*\{{(.*?)\}};", text, re.S)
    assert body is not None
    names = re.findall(r"\bk(\w+)", re.sub(r"//.*", "", body[1]))
    flat = [name.upper() for name in names]
    assert flat == [member.name.replace("_", "") for member in ours]


def write_trace(folder: Path, lines: list[str]) -> None:
    header = ('{"lockstep_trace":1,"run":"r","attempt":0,"rank":0,"ranks":1,"backend":"gloo",'
              '"scenario":"s","scenario_digest":"","exact":false,"library":"test"}')
    (folder / "a000.rank-00000.jsonl").write_text("\n".join([header, *lines]) + "\n")


def event(i: int, kind: str, **fields: object) -> str:
    return json.dumps({"rank": 0, "i": i, "t": i, "at": [0, -1, -1, -1, 0, 0], "kind": kind, **fields})


def test_a_report_has_findings_as_objects(tmp_path: Path) -> None:
    call = {"group": 0, "seq": 0, "op": "barrier", "dtype": "f32", "site": "train.py:9"}
    write_trace(tmp_path, [event(0, "collective", phase="posted", **call),
                           event(1, "end", outcome="stuck")])
    report = lockstep.check(tmp_path)
    assert report.outcome == "hang"
    assert [finding.law for finding in report.findings] == ["progress"]
    assert report.findings[0].site == "train.py:9"
    with pytest.raises(lockstep.BrokenLaws, match="blocked forever"):
        report.raise_for_findings()
    # As `lockstep check` prints it.
    shown = str(report)
    assert ": hang: 1 law broken\n" in shown and "\n  Read more: docs/" in shown and "\nlaws: 1 broken" in shown
    assert "digest" not in shown


def test_a_quiet_trace_raises_nothing(tmp_path: Path) -> None:
    write_trace(tmp_path, [event(0, "end", outcome="ok")])
    lockstep.check(tmp_path).raise_for_findings()


def test_a_damaged_trace_is_refused_with_its_place(tmp_path: Path) -> None:
    write_trace(tmp_path, ['{"rank":0,', event(0, "end", outcome="ok")])
    with pytest.raises(ValueError, match=r"rank-00000\.jsonl:2:\d+: "):
        lockstep.check(tmp_path)


def test_a_folder_without_traces_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no trace files"):
        lockstep.check(tmp_path)


def test_a_rank_that_vanished_gets_an_end(tmp_path: Path) -> None:
    write_trace(tmp_path, [event(0, "log", text="last words")])
    path = tmp_path / "a000.rank-00000.jsonl"
    path.write_bytes(path.read_bytes() + b'{"rank":0,"i":1,"t":')  # Cut short by a kill.
    assert trace_completion.reap(tmp_path) == 1
    lines = path.read_text().splitlines()
    assert len(lines) == 3
    assert '"outcome":"killed"' in lines[-1] and '"i":1' in lines[-1]
    before = path.read_bytes()
    trace_completion.reap(tmp_path)
    assert path.read_bytes() == before
    assert "killed" not in lockstep.check(tmp_path).notes


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "lockstep", *arguments], capture_output=True, text=True)


def test_the_command_of_the_package_is_the_native_one() -> None:
    shown = run_command("laws")
    assert shown.returncode == 0 and "replicas-equal" in shown.stdout


def test_recording_nothing_is_said_and_the_exit_code_is_the_job_s(tmp_path: Path) -> None:
    ran = run_command("record", "-o", str(tmp_path / "t"), "--", sys.executable, "-c", "exit(7)")
    assert ran.returncode == 7
    assert "nothing was recorded" in ran.stderr


def test_a_folder_with_a_trace_is_not_written_over(tmp_path: Path) -> None:
    write_trace(tmp_path, [event(0, "end", outcome="ok")])
    ran = run_command("record", "-o", str(tmp_path), "--", "true")
    assert ran.returncode == 2 and "holds a trace already" in ran.stderr


def test_importing_is_cheap_because_it_loads_nothing_large() -> None:
    code = "import sys, lockstep; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert "lockstep._core" in loaded
    assert not loaded & {"torch", "numpy", "asyncio", "lockstep.torch"}


def test_nothing_is_armed_without_being_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from lockstep.autostart import arm
    monkeypatch.delenv("LOCKSTEP_RECORD", raising=False)
    arm()
    assert not any(type(finder).__module__ == "lockstep.autostart" for finder in sys.meta_path)


def test_words_cost_nothing_where_nothing_is_recorded() -> None:
    say = lockstep.annotate()
    assert not say.on
    say.decision("stop", True)
    say.batch(4)
    say.replicated("average", [])


def test_words_that_are_not_known_are_refused() -> None:
    say = lockstep.annotate()
    with pytest.raises(ValueError, match="unknown meaning 'samples'.*sample-mean"):
        say.batch(4, declared="samples")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="policy of buffers"):
        say.buffers(["mean"], "local0")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="budget=5.0"):
        lockstep.record("trace", budget=5.0)


LAZY_RANK = """
import os, signal, sys
from lockstep import _core, enums
pen = _core.Pen(sys.argv[1], "r", 0, 0, 1, "gloo", "job", "torch", "", [None] * len(enums.DType), True, "")
for i in range(3):
    pen.place(-1, -1, -1, i, 0)
    pen.step(-1, 0.1, 1.0, False, False, pen.layout(["a"]))
os.kill(os.getpid(), int(sys.argv[2])) if sys.argv[2] != "0" else os.abort()
"""


@pytest.mark.parametrize("number, written", [(0, 3), (int(signal.SIGABRT), 3), (int(signal.SIGKILL), 0)])
def test_what_waits_to_be_written_outlives_an_abort(tmp_path: Path, number: int, written: int) -> None:
    # With a budget, steps wait in memory for the next call. Backends abort over calls that do not match.
    ran = subprocess.run([sys.executable, "-c", LAZY_RANK, str(tmp_path), str(number)], check=False)
    assert ran.returncode == -(number or signal.SIGABRT)
    [path] = tmp_path.glob("*.jsonl")
    lines = path.read_text().splitlines()
    assert sum('"kind":"step"' in line for line in lines) == written
    for line in lines:
        json.loads(line)


def test_a_backward_and_what_came_before_it_outlive_an_abort(tmp_path: Path) -> None:
    script = LAZY_RANK.replace("    pen.step(-1, 0.1, 1.0, False, False, pen.layout([\"a\"]))\n",
                               "    pen.forward(-1, True, True, True, True, \"\")\n    pen.backward(-1, True)\n")
    assert script != LAZY_RANK
    ran = subprocess.run([sys.executable, "-c", script, str(tmp_path), "0"], check=False)
    assert ran.returncode == -signal.SIGABRT
    [path] = tmp_path.glob("*.jsonl")
    kinds = [json.loads(line).get("kind") for line in path.read_text().splitlines()[1:]]
    assert kinds == ["forward", "backward"] * 3


def test_a_posted_call_outlives_an_abort(tmp_path: Path) -> None:
    script = LAZY_RANK.replace("    pen.step(-1, 0.1, 1.0, False, False, pen.layout([\"a\"]))\n",
                               "    pen.forward(-1, True, True, True, True, \"\")\n"
                               "    pen.posted_own(-1, 0, enums.CollectiveOp.ALL_REDUCE, [], True, -1, 'job.py', 7, 'ddp.backward')\n")
    assert script != LAZY_RANK
    ran = subprocess.run([sys.executable, "-c", script, str(tmp_path), "0"], check=False)
    assert ran.returncode == -signal.SIGABRT
    [path] = tmp_path.glob("*.jsonl")
    kinds = [json.loads(line).get("kind") for line in path.read_text().splitlines()[1:]]
    assert kinds == ["forward", "collective"] * 3


def test_a_child_of_a_rank_writes_nothing_when_it_aborts(tmp_path: Path) -> None:
    script = LAZY_RANK[:LAZY_RANK.index("os.kill")] + \
        "child = os.fork()\nif child == 0:\n    os.abort()\nos.waitpid(child, 0)\nos._exit(0)\n"
    ran = subprocess.run([sys.executable, "-c", script, str(tmp_path), "0"], check=False)
    assert ran.returncode == 0
    [path] = tmp_path.glob("*.jsonl")
    assert '"kind":"step"' not in path.read_text()
