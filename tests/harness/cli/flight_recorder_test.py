#!/usr/bin/env python3
"""`lockstep check DUMP...` on dumps of PyTorch's Flight Recorder: planted faults must be named with rank and
line, healthy dumps must stay quiet, and damaged ones must be refused with a place."""

import json
import pickle
import random
import sys
import tempfile
from pathlib import Path

from flight_dumps import call, check, dump, findings, write

ROOT = Path(__file__).resolve().parents[3]
WORLD = {"0": [0, 1, 2]}


def training(n_steps, **last):
    """Calls of a healthy loop; `last` changes the last one."""
    calls = [call("broadcast", site=("train.py", 12))]
    for _ in range(n_steps):
        calls += [call("all_reduce", shape=(64, 64)), call("_all_gather_base", shape=(8,), out=[(24,)])]
    calls.append(call("all_reduce", shape=(16,), site=("train.py", 55)))
    calls[-1].update(last)
    return calls


def dumps_of(by_rank, groups=None, **options):
    return {rank: dump(rank, calls, groups or WORLD, **options) for rank, calls in by_rank.items()}


def one(found, law):
    """The one finding of this law, which must be there."""
    of_law = [finding for finding in found if finding["law"] == law]
    assert len(of_law) == 1, found
    return of_law[0]


def healthy(binary, folder, form):
    found, report = findings(binary, write(folder, "healthy", dumps_of({r: training(3) for r in range(3)}), form))
    assert not found and report["outcome"] == "ok", report
    # Reduced gradients of other sizes on each rank are what all-to-all is for.
    uneven = {r: [call("all_to_all", shape=(4 + r,), out=[(5,)])] for r in range(3)}
    assert not findings(binary, write(folder, "uneven", dumps_of(uneven), form))[0]
    # Calls after a coalesced group of messages keep their places.
    pair = {0: [call("send 0->1"), call("coalesced"), call("all_reduce")],
            1: [call("recv 1<-0"), call("coalesced"), call("all_reduce")]}
    assert not findings(binary, write(folder, "pair", dumps_of(pair, {"0": [0, 1]}), form))[0]


def planted(binary, folder, form):
    stuck = {"state": "started"}
    # Another operation on rank 1.
    calls = {r: training(2, **stuck) for r in range(3)}
    calls[1][-1] = call("broadcast", shape=(16,), site=("save.py", 9), **stuck)
    found, _ = findings(binary, write(folder, "mismatch", dumps_of(calls), form))
    mismatch = one(found, "collectives-match")
    assert mismatch["field"] == "op" and mismatch["ranks"] == [1] and mismatch["seq"] == 5, mismatch
    assert (mismatch["site"], mismatch["other_site"]) == ("save.py:9", "train.py:55"), mismatch
    # A different size, a different type.
    for name, change, field in (("size", {"in": [[17]], "out": [[17]]}, "count"),
                                ("type", {"dtype": "Half"}, "dtype")):
        calls = {r: training(2, **stuck) for r in range(3)}
        calls[2][-1].update(change)
        mismatch = one(findings(binary, write(folder, name, dumps_of(calls), form))[0], "collectives-match")
        assert mismatch["field"] == field and mismatch["ranks"] == [2], mismatch
    # Rank 2 never entered the last call.
    calls = {r: training(2, **stuck) for r in range(3)}
    calls[2].pop()
    found, report = findings(binary, write(folder, "late", dumps_of(calls), form))
    waits = one(found, "progress")
    assert report["outcome"] == "hang" and waits["missing"] == [2] and waits["ranks"] == [0, 1], waits
    assert waits["site"] == "train.py:55" and waits["seq"] == 5 and waits["step"] is None, waits
    assert "its last call was all_gather (train.py:40)" in waits["message"], waits
    # Rank 1 left no dump at all.
    calls = {r: training(2, **stuck) for r in (0, 2)}
    waits = one(findings(binary, write(folder, "gone", dumps_of(calls), form))[0], "progress")
    assert waits["missing"] == [1] and waits["cause"] == "rank-crash", waits
    # Every rank came, and nothing arrives.
    calls = {r: training(2, **stuck) for r in range(3)}
    waits = one(findings(binary, write(folder, "frozen", dumps_of(calls), form))[0], "progress")
    assert waits["missing"] == [] and waits["cause"] == "partition", waits


def groups_and_messages(binary, folder, form):
    groups = {"0": [0, 1, 2], "7": [1, 2], "8": [0, 2]}
    stuck = {"state": "scheduled"}
    calls = {0: [call("all_reduce"), call("all_reduce", group="8", **stuck)],
             1: [call("all_reduce"), call("all_reduce", group="7", **stuck)],
             2: [call("all_reduce"), call("all_reduce", group="8", **stuck)]}
    found, report = findings(binary, write(folder, "groups", dumps_of(calls, groups), form))
    by_missing = {tuple(finding["missing"]): finding for finding in found if finding["law"] == "progress"}
    assert (2,) in by_missing and by_missing[(2,)]["ranks"] == [1], found
    assert any("process group '7' of ranks 1, 2" in note for note in report["notes"]), report["notes"]
    # A receive without a matching send.
    calls = {0: [call("all_reduce")], 1: [call("all_reduce"), call("recv 1<-0", **stuck)]}
    waits = one(findings(binary, write(folder, "recv", dumps_of(calls, {"0": [0, 1]}), form))[0], "progress")
    assert waits["cause"] == "missing-send" and waits["missing"] == [0], waits


def overwritten(binary, folder, form):
    """Buffers that hold other ranges of calls: only what all of them hold is compared."""
    dumps = {0: dump(0, training(2)[1:], WORLD, first=101, record=900),
             1: dump(1, training(2)[3:], WORLD, first=103, record=902),
             2: dump(2, training(2)[2:], WORLD, first=102, record=901)}
    found, report = findings(binary, write(folder, "cut", dumps, form))
    assert not found, found
    assert any("its call 0 is collective_seq_id 103" in note for note in report["notes"]), report["notes"]
    # Its twin: without the numbers the same dumps look shifted.
    for made in dumps.values():
        for number, entry in enumerate(made["entries"]):
            entry["collective_seq_id"] = number
    assert findings(binary, write(folder, "shifted", dumps, form))[0]


def older_versions(binary, folder, form):
    dumps = dumps_of({r: training(2) for r in range(3)}, version="2.1", frames=False)
    for made in dumps.values():
        for entry in made["entries"]:
            del entry["is_p2p"], entry["thread_id"], entry["thread_name"]
            entry["time_discovered_completed_ns"] = 0
    assert not findings(binary, write(folder, "older", dumps, form))[0]


def real_dumps(binary, folder, form):
    """Of torch 2.15 on gloo (tests/golden/make_flight_recorder.py)."""
    del folder
    suffix = "json" if form == "json" else "pickle"
    paths = [str(ROOT / f"tests/golden/flight_recorder/rank_{rank}.{suffix}") for rank in (0, 1)]
    waits = one(findings(binary, paths)[0], "progress")
    assert waits["ranks"] == [0] and waits["missing"] == [1] and waits["seq"] == 4, waits
    assert waits["site"].startswith("make_flight_recorder.py:") == (form == "pkl"), waits


def refused(binary, folder):
    good = dump(0, training(1), WORLD)

    def bad(change, wanted, name="dump_0.json"):
        made = json.loads(json.dumps(good))
        change(made)
        path = folder / name
        path.write_text(json.dumps(made, indent=1), encoding="utf-8")
        code, out, err = check(binary, [str(path)])
        assert code == 2 and not out and wanted in err and str(path) in err, (code, out, err, wanted)

    bad(lambda d: d.pop("version"), "it has no member 'version'")
    bad(lambda d: d.update(version="3.0"), "dump_0.json:2:2: unknown version '3.0'")
    bad(lambda d: d.update(entries=7), "'entries' must be a list")
    bad(lambda d: d["entries"][1].update(state="lost"), "unknown state 'lost'")
    bad(lambda d: d["entries"][2].update(profiling_name="nccl:juggle"), "unknown operation 'juggle'")
    bad(lambda d: d["entries"][2].update(profiling_name="juggle"), "not LIBRARY:OPERATION")
    bad(lambda d: d["entries"][0].update(input_sizes=[["x"]]), "a size must be a number")
    bad(lambda d: d["entries"][0].pop("collective_seq_id"), "'seq_id' must be a number")
    bad(lambda d: d["entries"][0].update(process_group=["0"]), "must be [name, description]")
    bad(lambda d: None, "must end with its rank", name="dump.json")
    # The line and column of the wrong member, not of the first one of its name.
    made = json.loads(json.dumps(good))
    made["entries"][1]["state"] = "lost"
    text = json.dumps(made, indent=1)
    at = text.index('"lost"')
    line = text.count("\n", 0, at) + 1
    (folder / "dump_0.json").write_text(text, encoding="utf-8")
    assert f"dump_0.json:{line}:" in check(binary, [str(folder / "dump_0.json")])[2]
    # Two dumps of one rank; an object instead of plain data.
    twice = write(folder, "a", {0: good}) + write(folder, "b", {0: good})
    code, _, err = check(binary, twice)
    assert code == 2 and "rank 0 has a dump already" in err, err
    (folder / "evil_0.pkl").write_bytes(pickle.dumps(Path("x"), protocol=2))
    code, _, err = check(binary, [str(folder / "evil_0.pkl")])
    assert code == 2 and "an opcode that plain data does not need" in err and "byte " in err, err


def damaged(binary, folder):
    """Whatever a file holds, the command ends with an answer or a place."""
    draw = random.Random(7)
    made = dump(0, training(1), WORLD)
    for form, text in (("json", json.dumps(made).encode()), ("pkl", pickle.dumps(made, protocol=2))):
        for _ in range(60):
            bytes_ = bytearray(text)
            if draw.random() < 0.5:
                del bytes_[draw.randrange(len(bytes_)):]
            else:
                for _ in range(draw.randint(1, 4)):
                    bytes_[draw.randrange(len(bytes_))] = draw.randrange(256)
            path = folder / f"damaged_0.{form}"
            path.write_bytes(bytes(bytes_))
            code, _, err = check(binary, [str(path)])
            assert code in (0, 1) or (code == 2 and str(path) in err), (code, err, bytes(bytes_))


def main():
    binary = sys.argv[1]
    cases = (healthy, planted, groups_and_messages, overwritten, older_versions, real_dumps)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for form in ("json", "pkl"):
            for case in cases:
                case(binary, folder, form)
        refused(binary, folder)
        damaged(binary, folder)
    print(f"{len(cases)} cases, as JSON and as pickles; wrong and damaged dumps refused")


if __name__ == "__main__":
    main()
