#!/usr/bin/env python3
"""Draws traces of many scenarios and checks the pictures against the trace event format.

What ui.perfetto.dev relies on: times ascend, slices of one thread lie inside each other or apart, every
asynchronous slice that begins ends, every rank has a name. And what the trace says must be in the
picture: each posted call, each fault, each finding.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCENARIOS = ["healthy/accumulate_with_no_sync", "jobs/digits", "lessons/rank0_only_barrier",
             "lessons/weights_2_and_200", "zoo/overlap_race", "zoo/rank_crash", "zoo/send_send",
             "zoo/two_comm_cycle", "zoo/scaler_inf_local"]


def lockstep(*arguments, may_find=True):
    done = subprocess.run([sys.argv[1], *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode in ((0, 1) if may_find else (0,)), done.stderr
    return done.stdout


def events_of(folder):
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines()[1:]:
            yield json.loads(line)


def check_structure(entries, n_ranks):
    names = {e["pid"]: e["args"]["name"] for e in entries if e["name"] == "process_name"}
    assert names == {r: f"rank {r}" for r in range(n_ranks)}, names
    last, open_slices, open_calls = 0.0, {}, {}
    for entry in entries:
        if entry["ph"] == "M":
            continue
        assert entry["ts"] >= last >= 0, "times must ascend"
        last = entry["ts"]
        if entry["ph"] == "X":
            end = round(entry["ts"] + entry["dur"], 3)
            stack = open_slices.setdefault((entry["pid"], entry["tid"]), [])
            while stack and stack[-1] <= entry["ts"]:
                stack.pop()
            assert not stack or end <= stack[-1], f"slices must nest: {entry}"
            stack.append(end)
        elif entry["ph"] == "b":
            key = (entry["cat"], entry["id"], entry["pid"])
            assert key not in open_calls
            open_calls[key] = entry["name"]
        elif entry["ph"] == "e":
            assert open_calls.pop((entry["cat"], entry["id"], entry["pid"])) == entry["name"]
        else:
            assert entry["ph"] == "i" and entry["s"] in "tp", entry
    assert not open_calls, "every call is closed"


def check_contents(entries, trace, report):
    posted = [e for e in trace if e["kind"] == "collective" and e["phase"] == "posted"]
    assert len([e for e in entries if e["ph"] == "b"]) == len(posted)
    marks = {"fault": "fault", "bucket": "bucket", "touch": "touch"}
    for kind, category in marks.items():
        wanted = sum(e["kind"] == kind for e in trace)
        got = sum(e["ph"] == "i" and e["cat"] == category for e in entries)
        assert wanted == got, (kind, wanted, got)
    steps = {(e["pid"], e["name"]) for e in entries if e["ph"] == "X" and e["name"].startswith("step ")}
    assert steps >= {(e["rank"], f"step {e['at'][4]}") for e in trace if e["kind"] == "step"}
    sentences = {f["sentence"] for law in report["laws"] for f in law["findings"]}
    drawn = {e["args"]["text"] for e in entries if e["ph"] == "i" and e["cat"] == "finding"}
    assert sentences == drawn


def main():
    for name in SCENARIOS:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "trace"
            picture = Path(scratch) / "picture.json"
            lockstep("run", ROOT / "scenarios" / f"{name}.toml", "--trace", folder, "--quiet")
            lockstep("export", folder, "--perfetto", picture, may_find=False)
            report = json.loads(lockstep("check", folder, "--json"))
            entries = json.loads(picture.read_text())["traceEvents"]
            check_structure(entries, report["ranks"])
            check_contents(entries, list(events_of(folder)), report)
            print(f"{name}: {len(entries)} entries")


main()
