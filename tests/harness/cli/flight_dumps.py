"""Writes dumps of PyTorch's Flight Recorder, as its sources of versions 2.3 to 2.15 describe them.

A job is a list of calls per rank. `dump` makes of them what that rank's recorder would hold; `write` makes
files of it: JSON, or a pickle of protocol 2.
"""

import json
import pickle
import subprocess

START_NS = 1_700_000_000_000_000_000


def call(op, *, shape=(4,), dtype="Float", out=None, group="0", state="completed", site=("train.py", 40),
         library="nccl"):
    """One call. `out`: the shapes of the outputs, where they differ from the inputs'."""
    shapes = [] if op == "barrier" else [list(shape)]
    outputs = shapes if out is None else [list(shape) for shape in out]
    return {"op": op, "in": shapes, "out": outputs, "dtype": dtype, "group": group, "state": state,
            "site": site, "library": library}


def dump(rank, calls, groups, *, first=1, record=0, frames=True, version="2.10"):
    """The dump of one rank; `first`: the number of its first call, `record`: entries overwritten."""
    entries = []
    numbers = {name: first - 1 for name in groups}
    messages = 0
    for position, made in enumerate(calls):
        is_message = made["op"].split(" ")[0] in ("send", "recv")
        if is_message:
            messages += 1
        else:
            numbers[made["group"]] += 1
        created = START_NS + 1_000_000 * position + 1000 * rank
        done = made["state"] == "completed"
        entry = {
            "record_id": record + position,
            "pg_id": sorted(groups).index(made["group"]),
            "process_group": [made["group"], "default_pg" if made["group"] == "0" else "undefined"],
            "collective_seq_id": numbers[made["group"]],
            "p2p_seq_id": messages,
            "op_id": position + 1,
            "profiling_name": f"{made['library']}:{made['op']}",
            "time_created_ns": created,
            "input_sizes": made["in"], "input_dtypes": [made["dtype"]] * len(made["in"]),
            "output_sizes": made["out"], "output_dtypes": [made["dtype"]] * len(made["out"]),
            "state": made["state"],
            "time_discovered_started_ns": None if made["state"] == "scheduled" else created + 500,
            "time_discovered_completed_ns": created + 900 if done else None,
            "retired": done, "timeout_ms": 600000, "is_p2p": is_message,
            "thread_id": "1", "thread_name": "python",
        }
        if frames:
            file, line = made["site"]
            entry["frames"] = [
                {"name": "all_reduce", "filename": "/env/site-packages/torch/distributed/distributed_c10d.py",
                 "line": 2696},
                {"name": "step", "filename": f"/home/user/{file}", "line": line},
                {"name": "<module>", "filename": "/home/user/main.py", "line": 7},
            ]
        entries.append(entry)
    return {
        "version": version,
        "comm_lib_version": "2.21.5",
        "pg_config": {name: {"name": name, "desc": "default_pg" if name == "0" else "undefined",
                             "ranks": str(ranks)} for name, ranks in groups.items()},
        "pg_status": {str(number): {"last_enqueued_collective": -1, "last_started_collective": -1,
                                    "last_completed_collective": -1}
                      for number, _ in enumerate(groups)},
        "entries": entries,
    }


def write(folder, name, dumps, form="json"):
    """One file a dump, `name`_RANK; returns their paths."""
    paths = []
    for rank, made in dumps.items():
        path = folder / f"{name}_{rank}.{form}"
        if form == "json":
            path.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
        else:
            path.write_bytes(pickle.dumps(made, protocol=2))
        paths.append(str(path))
    return paths


def check(binary, paths, *options):
    done = subprocess.run([binary, "check", *paths, *options], capture_output=True, text=True, timeout=60,
                          check=False)
    return done.returncode, done.stdout, done.stderr


def findings(binary, paths):
    code, out, err = check(binary, paths, "--json")
    assert code in (0, 1), err
    report = json.loads(out)
    found = [finding for law in report["laws"] for finding in law["findings"]]
    assert (code == 1) == bool(found), (code, found)
    return found, report
