#!/usr/bin/env python3
"""`lockstep check FILE...` on logs of torchcomms' Clog hook, files of NCCL's Inspector and a status of NCCL's RAS: planted
faults must be named with their ranks, healthy files must stay quiet, and damaged ones must be refused with a place.

The files are written here as the formats' own descriptions have them; none of them comes from a GPU.
"""

import json
import random
import re
import sys
import tempfile
from pathlib import Path

from flight_dumps import check, findings

REDUCE = "all_reduce|in_count={count}|out_count={count}|dtype=f32|red_op={op}|async_op=f|comm={comm}"
CAST = "broadcast|in_count=8|out_count=8|dtype=bf16|root={root}|async_op=t|comm=world"
FUNCTIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")


class Clog:
    """One rank's log."""

    def __init__(self, rank, world, lives=True):
        self.lines = ["V|1|base_timestamp=1714234567.890", f"new_comm|comm=world|rank={rank}|world_size={world}"]
        self.signatures = {}
        self.lives = lives
        self.n_works = 0

    def call(self, signature, ends=True):
        if signature not in self.signatures:
            self.signatures[signature] = len(self.signatures) + 1
            self.lines.append(f"C{self.signatures[signature]}|sig|{signature}")
        self.n_works += 1
        name = f"C{self.signatures[signature]}"
        self.lines.append(f"{name}|Q|work_id={self.n_works}|+{self.n_works / 1000:.3f}")
        if self.lives and ends:
            self.lines += [f"{name}|S|+{self.n_works / 1000:.3f}", f"{name}|E|+{self.n_works / 1000 + 0.0005:.4f}"]
        return self

    def write(self, folder, name):
        path = folder / name
        path.write_text("\n".join(self.lines) + "\n", encoding="utf-8")
        return path


def clogs(folder, name, logs):
    return [log.write(folder, f"{name}_{rank}.log") for rank, log in enumerate(logs)]


def training(rank, world, lives=True, n_steps=3):
    log = Clog(rank, world, lives).call(CAST.format(root=0))
    for _ in range(n_steps):
        log.call(REDUCE.format(count=1024, op="sum", comm="world"))
    return log


def clog_cases(binary, folder):
    for lives in (True, False):
        found, report = findings(binary, clogs(folder, f"healthy{lives}", [training(r, 3, lives) for r in range(3)]))
        assert not found and report["outcome"] == "ok", report

    # Nothing of PyTorch's own dumps can tell these two: the log has operators and roots.
    wrong = [training(r, 3).call(REDUCE.format(count=16, op="max" if r == 2 else "sum", comm="world"), ends=False)
             for r in range(3)]
    (finding,) = [each for each in findings(binary, clogs(folder, "operator", wrong))[0]
                  if each["law"] == "collectives-match"]
    assert finding["field"] == "reduce" and finding["ranks"] == [2], finding
    wrong = [training(r, 3).call(CAST.format(root=1 if r == 1 else 0), ends=False) for r in range(3)]
    (finding,) = [each for each in findings(binary, clogs(folder, "root", wrong))[0]
                  if each["law"] == "collectives-match"]
    assert finding["field"] == "root" and finding["ranks"] == [1], finding

    # A rank that does not come, whether or not the ends of calls are logged.
    for lives in (True, False):
        logs = [training(r, 3, lives) for r in range(3)]
        for rank in (0, 2):
            logs[rank].call(REDUCE.format(count=16, op="sum", comm="world"), ends=False)
        found, report = findings(binary, clogs(folder, f"missing{lives}", logs))
        assert report["outcome"] == "hang" and [each["law"] for each in found] == ["progress"], found
        assert found[0]["missing"] == [1] and found[0]["seq"] == 4, found

    # A communicator of some ranks, and what is said beside calls.
    logs = [training(r, 3) for r in range(3)]
    for rank in (0, 2):
        logs[rank].lines.append("split|parent=world|child=even|ranks=0,2")
        if rank == 0:
            logs[rank].call(REDUCE.format(count=4, op="avg", comm="even"), ends=False)
    logs[1].lines += ["WARN|a lifecycle event for an unknown work id", "G42|R1|C1|S|+2.001", "G42|R1|C1|E|+2.004"]
    found, report = findings(binary, clogs(folder, "split", logs))
    assert found[0]["missing"] == [2], found
    notes = " ".join(report["notes"])
    assert "WARN|a lifecycle event" in notes and "2 events of replayed CUDA graphs are left out" in notes, notes
    assert "process group 'even' of ranks 0, 2" in notes, notes

    # Another communicator of all ranks has the same members; those of a smaller one are the ranks that call it.
    for size in (3, 2):
        logs = [training(r, 3) for r in range(3)]
        for rank in (0, 2):
            logs[rank].lines.append(f"new_comm|comm=other|rank={rank % size}|world_size={size}")
            logs[rank].call(REDUCE.format(count=4, op="sum", comm="other"), ends=False)
        found, report = findings(binary, clogs(folder, f"other{size}", logs))
        assert [finding["missing"] for finding in found] == [[1] if size == 3 else []], found

    # Killed as it wrote.
    paths = clogs(folder, "cut", [training(r, 3) for r in range(3)])
    paths[1].write_text(paths[1].read_text()[:-9], encoding="utf-8")
    assert "is cut off and left out" in " ".join(findings(binary, paths)[1]["notes"])


def ras(folder, name, counts, missing=(), errors=None, hashes=("0x1f",)):
    """A status: `counts` of launched all-reduces by rank, for each communicator the same."""
    status = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
    communicators = []
    for name_of in hashes:
        ranks = [{"rank": rank, "host": "10.0.0.1", "pid": 100 + rank, "cuda_dev": rank, "nvml_dev": rank,
                  "status": {**status, "async_error": (errors or {}).get(rank, 0)},
                  "collective_counts": {name: n if name == "AllReduce" else 3 for name in FUNCTIONS}}
                 for rank, n in counts.items()]
        gone = [{"rank": rank, "host": "10.0.0.2", "pid": 100 + rank, "cuda_dev": rank, "nvml_dev": rank,
                 "status": {"unresponsive": True, "considered_dead": True}} for rank in missing]
        communicators.append({"hash": name_of, "secondary_hash": "0x1:0x2", "size": len(ranks) + len(gone),
                              "ranks_count": len(ranks), "missing_ranks_count": len(gone), "ranks": ranks,
                              "missing_ranks": gone})
    document = {"nccl_version": "2.28.7", "cuda_runtime_version": 13000, "cuda_driver_version": 13000,
                "timestamp": "2025-11-02 10:00:00", "communicators_count": len(communicators),
                "communicators": communicators, "ras": {"collection_time_sec": 0.002, "timeouts_count": 0}}
    path = folder / name
    path.write_text(json.dumps(document, indent=2), encoding="utf-8")
    return [path]


def ras_cases(binary, folder):
    found, report = findings(binary, ras(folder, "equal.json", {0: 120, 1: 120, 2: 120}))
    assert not found and "RAS does not say" in " ".join(report["notes"]), report

    found, report = findings(binary, ras(folder, "behind.json", {0: 120, 1: 118, 2: 120}, errors={2: 6}))
    assert [each["law"] for each in found] == ["progress"] and found[0]["missing"] == [1], found
    notes = " ".join(report["notes"])
    assert "its call 0 is operation 118" in notes and "rank 2, async_error 6" in notes, notes

    # A process that has died launches nothing more.
    found, report = findings(binary, ras(folder, "dead.json", {0: 120, 2: 120}, missing=[1]))
    assert any(each["missing"] == [1] for each in found), found
    assert "process 101, is dead" in " ".join(report["notes"]), report["notes"]
    two = ras(folder, "two.json", {0: 5, 1: 5}, hashes=("0x1f", "0x2f"))
    assert not findings(binary, two)[0]


def inspector(folder, name, by_rank):
    paths = []
    for rank, numbers in by_rank.items():
        objects = [{"header": {"id": "0x7f8c", "rank": rank, "n_ranks": len(by_rank), "nnodes": 1},
                    "metadata": {"inspector_output_format_version": "v4.0", "git_rev": "",
                                 "rec_mechanism": "profiler_plugin", "dump_timestamp_us": 1748030377748202 + 100 * sn,
                                 "hostname": "h", "pid": 100 + rank},
                    "coll_perf": {"coll": call, "coll_sn": sn, "coll_msg_size_bytes": size, "coll_exec_time_us": 50,
                                  "coll_algobw_gbs": 1.0, "coll_busbw_gbs": 1.0}} for sn, call, size in numbers]
        paths.append(folder / f"{name}_{rank}.log")
        paths[-1].write_text("\n".join(json.dumps(each, indent=rank or None) for each in objects) + "\n",
                             encoding="utf-8")
    return paths


def inspector_cases(binary, folder):
    calls = [(sn, "AllReduce", 4096) for sn in range(5)]
    found, report = findings(binary, inspector(folder, "healthy", {0: calls, 1: list(reversed(calls))}))
    assert not found and report["outcome"] == "ok", report
    other = [*calls[:3], (3, "AllGather", 4096), calls[4]]
    (finding,) = findings(binary, inspector(folder, "other", {0: calls, 1: calls, 2: other}))[0]
    assert finding["law"] == "collectives-match" and finding["seq"] == 3 and finding["ranks"] == [2], finding
    _, report = findings(binary, inspector(folder, "short", {0: calls, 1: calls[:3]}))
    notes = " ".join(report["notes"])
    assert "rank 1 has logged up to coll_sn 2 of process group '0x7f8c', others up to 4" in notes, notes


def refused(binary, path, place, what):
    code, out, err = check(binary, [path])
    assert code == 2 and not out, (path, code, out)
    assert err.startswith(f"{path}:{place}: ") and what in err, (err, place, what)


def hostile(binary, folder):
    """Each wrong line is refused with its place."""
    good = training(0, 1).lines
    for number, line, place, what in (
            (0, "V|2|base_timestamp=1", "1:3", "version 1"),
            (0, "V|1|base_timestamp=-1", "1:20", "seconds"),
            (0, "V|1|x=1", "1:1", "no 'base_timestamp='"),
            (1, "new_comm|comm=world|rank=x|world_size=1", "2:26", "whole number"),
            (1, "new_comm|comm=world|rank=1|world_size=1", "2:1", "not below"),
            (1, "new_comm|comm=world|rank=0|world_size=99999999999", "2:39", "more ranks"),
            (2, "C1|sig|all_redcue|in_count=1|comm=world", "3:8", "unknown operation"),
            (2, "C1|sig|all_reduce|in_count=1|dtype=f33|comm=world", "3:36", "unknown dtype"),
            (2, "C1|sig|all_reduce|in_count=1|red_op=xor|comm=world", "3:37", "unknown red_op"),
            (2, "C1|sig|all_reduce|in_count=1", "3:1", "no 'comm='"),
            (2, "C1|sig|all_gather|in_counts=9223372036854775807,1|comm=world", "3:29", "add up"),
            (3, "C7|Q|work_id=1|+0.001", "4:1", "no signature"),
            (3, "C1|X|+0.001", "4:4", "unknown event"),
            (3, "C1|Q|work_id=1", "4:6", "ends with its time"),
            (3, "hello", "4:1", "unknown line")):
        lines = list(good)
        lines[number] = line
        path = folder / "wrong.log"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        refused(binary, path, place, what)
    status = ras(folder, "good.json", {0: 3, 1: 3})[0].read_text(encoding="utf-8")
    for old, new, what in (('"size": 2', '"size": "two"', "'size' must be"), ('"rank": 1', '"rank": 7', "'rank' must be"),
                           ('"AllReduce": 3', '"AllReduce": -3', "'AllReduce' must be"),
                           ('"missing_ranks": []', '"missing_ranks": 5', "'missing_ranks' must be"),
                           ('"AllReduce": 3', '"AllReduce" 3', "not valid JSON")):
        path = folder / "wrong.json"
        assert old in status, old
        path.write_text(status.replace(old, new), encoding="utf-8")
        code, _, err = check(binary, [path])
        assert code == 2 and re.match(re.escape(str(path)) + r":\d+:\d+: ", err) and what in err, err
    lines = inspector(folder, "good", {0: [(0, "AllReduce", 8), (1, "AllReduce", 8)]})[0].read_text(encoding="utf-8")
    for old, new, place, what in (("AllReduce", "AllRedcue", "1", "unknown collective"),
                                  ('"coll_sn": 1', '"coll_sn": "1"', "2", "'coll_sn' must be"),
                                  ('"n_ranks": 1', '"n_ranks": 99999999', "1", "'n_ranks' must be")):
        path = folder / "wrong.log"
        path.write_text(lines.replace(old, new), encoding="utf-8")
        code, _, err = check(binary, [path])
        assert code == 2 and re.match(re.escape(str(path)) + rf":{place}:\d+: ", err) and what in err, err
    # Files of two kinds are refused together.
    mixed = [*clogs(folder, "mixed", [training(0, 2)]), *inspector(folder, "mixed2", {0: [], 1: [(0, "AllReduce", 8)]})[1:]]
    code, _, err = check(binary, mixed)
    assert code == 2 and "another kind" in err, err


def damaged(binary, folder):
    """Random damage is a sentence and exit code 2, or a report; never a crash."""
    stream = random.Random(7)
    files = [training(0, 1).write(folder, "one_0.log"), *ras(folder, "one.json", {0: 3, 1: 2}),
             *inspector(folder, "one", {0: [(0, "AllReduce", 8), (1, "Reduce", 8)]})]
    for path in files:
        whole = path.read_bytes()
        for _ in range(60):
            data = bytearray(whole)
            for _ in range(stream.randint(1, 6)):
                at = stream.randrange(len(data))
                data[at:at + stream.randint(0, 3)] = bytes(stream.choices(b'0123456789|,=C{}[]":\n\x00\xff', k=stream.randint(0, 3)))
                if not data:
                    break
            damaged_file = folder / f"damaged_0{path.suffix}"
            damaged_file.write_bytes(data)
            code, _, err = check(binary, [damaged_file])
            assert code in (0, 1, 2) and (code != 2 or err.count("\n") == 1), (code, err, bytes(data))


def main():
    binary = sys.argv[1]
    for case in (clog_cases, ras_cases, inspector_cases, hostile, damaged):
        with tempfile.TemporaryDirectory() as folder:
            case(binary, Path(folder))


if __name__ == "__main__":
    main()
