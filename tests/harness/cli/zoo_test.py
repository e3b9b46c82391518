#!/usr/bin/env python3
"""Runs the scoreboard over the project's scenarios, and over scenarios whose expectations are wrong.

The scoreboard must show every variant of every file, agree with the table of the kill matrix, and say
miss, false alarm or differs where an expectation is made wrong on purpose.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCENARIOS = ROOT / "scenarios"
FOLDERS = ["healthy", "kill_matrix", "zoo"]

JOB = """format = 1
title = "{title}"
{head}world = {{ ranks = 2 }}
exact = {{ grid = 4, clamp = 8.0 }}
model = {{ kind = "scalar", init = {{ kind = "constant", value = 1.0 }} }}
data = {{ rows = [ {{ x = [1], y = [0] }}, {{ x = [2], y = [0] }} ] }}
loss = {{ kind = "mse" }}
optimizer = {{ kind = "sgd", lr = 0.25 }}
loop = {{ steps = 1 }}
{rest}
"""
BYPASS = 'bug = [ { kind = "bypass-wrapper" } ]\n'
FIRES = 'fires = [ { law = "reduced-once" }, { law = "replicas-equal" }, { law = "single-process-equal" } ]'

# Rows whose findings name no cause: the trace says what happened, and it is not a bug of the zoo.
NOT_NAMED = {
    ("healthy/local_sgd.toml", "never_averaged"),
    ("healthy/sixteen_bits.toml", "exact_last_bit"),
    ("healthy/sixteen_bits.toml", "too_much"),
    ("zoo/clip_collective_set_differs.toml", ""),
    ("zoo/hash_order_ids.toml", ""),
    ("zoo/outer_steps_shifted.toml", ""),
    ("zoo/sdc_in_compute.toml", "operation"),
}

# Name of the file -> what follows the healthy job, and the verdict it must get.
WRONG = {
    "not_found": ('expect = { outcome = "findings", fires = [ { law = "gradient-mean" } ] }', "miss"),
    "other_place": (BYPASS + 'expect = { outcome = "findings", fires = [ { law = "reduced-once", step = 7 }, '
                    '{ law = "replicas-equal" }, { law = "single-process-equal" } ] }', "miss"),
    "too_loud": (BYPASS + 'expect = { outcome = "findings", fires = [ { law = "reduced-once" } ] }', "false alarm"),
    "not_healthy": (BYPASS + 'expect = { outcome = "ok" }', "false alarm"),
    "other_value": ('expect = { values = [ { at = { step = 0, event = "step" }, tensor = "weight", '
                    'equals = [9.0] } ] }', "differs"),
}
RIGHT = {
    "healthy": ('expect = { outcome = "ok" }', "quiet", "look-alike"),
    "broken": (BYPASS + 'expect = { outcome = "findings", ' + FIRES + " }", "caught", "buggy"),
}


def zoo(*arguments, code):
    done = subprocess.run([sys.argv[1], "zoo", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout


def check_totals(board):
    names = {"caught": "caught", "quiet": "quiet", "miss": "misses", "false alarm": "false_alarms",
             "differs": "differs"}
    for verdict, member in names.items():
        assert board[member] == sum(row["verdict"] == verdict for row in board["rows"]), member


def variants_of(path):
    """The variants of a file, by reading its headings: 'variant.NAME' or '[variant.NAME]'."""
    return {""} | set(re.findall(r"^\[?variant\.(\w+)", path.read_text(), re.MULTILINE))


def kill_table():
    """The README's table: file -> (what DETAIL did, the laws that fire, the causes they name)."""
    rows = re.findall(r"^\| `(\w+)` \| ([\w ]+) \| ([\w, -]+) \| ([\w, -]+) \|",
                      (SCENARIOS / "kill_matrix/README.md").read_text(), re.MULTILINE)
    return {name: (detail.strip(), set(laws.split(", ")), set(causes.split(", ")))
            for name, detail, laws, causes in rows}


def check_own_scenarios():
    board = json.loads(zoo("--json", code=0))
    check_totals(board)
    assert board["misses"] == board["false_alarms"] == board["differs"] == 0
    shown = {(row["scenario"], row["variant"]) for row in board["rows"]}
    wanted = {(str(path.relative_to(SCENARIOS)), variant) for folder in FOLDERS
              for path in (SCENARIOS / folder).glob("*.toml") for variant in variants_of(path)}
    assert shown == wanted, shown ^ wanted
    for row in board["rows"]:
        fired = {finding["law"] for finding in row["fired"]}
        assert set(row["expected"]) == fired and not fired & set(row["held"]), row
        assert row["kind"] == "buggy" or not fired, row
        named = any("Likely: " in finding["sentence"] for finding in row["fired"])
        assert named or not fired or (row["scenario"], row["variant"]) in NOT_NAMED, row
    kill = {Path(row["scenario"]).stem: row for row in board["rows"]
            if row["scenario"].startswith("kill_matrix/") and row["variant"] == ""}
    table = kill_table()
    assert len(table) == 14 and table.keys() == kill.keys()
    for name, (detail, laws, causes) in table.items():
        fired = kill[name]["fired"]
        assert kill[name]["torch_detail"] == detail, (name, detail)
        assert laws == {finding["law"] for finding in fired}, name
        named = re.findall(r"Likely: ([\w-]+)\.", " ".join(finding["sentence"] for finding in fired))
        assert causes == set(named), (name, named)
    text = zoo(code=0)
    assert f"{board['caught']} caught, {board['quiet']} quiet, 0 misses, 0 false alarms" in text
    for row in board["rows"]:
        name = row["scenario"].removesuffix(".toml") + (f" [{row['variant']}]" if row["variant"] else "")
        assert any(name in line and row["verdict"] in line for line in text.splitlines()), name


def check_verdict(name, rest, verdict, kind=None):
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{name}.toml").write_text(JOB.format(title=name, head="", rest=rest))
        healthy = verdict in ("caught", "quiet")
        board = json.loads(zoo("--json", folder, code=0 if healthy else 1))
        check_totals(board)
        [row] = board["rows"]
        assert row["verdict"] == verdict, (name, row)
        assert bool(row["complaints"]) != healthy
        assert row["bug"] == name.replace("_", "-")
        assert kind in (None, row["kind"])
        text = zoo(folder, code=0 if healthy else 1)
        assert all(complaint in text for complaint in row["complaints"])


def main():
    check_own_scenarios()
    for name, (rest, verdict) in WRONG.items():
        check_verdict(name, rest, verdict)
    for name, (rest, verdict, kind) in RIGHT.items():
        check_verdict(name, rest, verdict, kind)
    with tempfile.TemporaryDirectory() as empty:
        zoo(empty, code=2)
        zoo(Path(empty) / "nowhere", code=2)
        (Path(empty) / "typo.toml").write_text(JOB.format(title="typo", head="wrold = 1\n", rest=""))
        zoo(empty, code=2)


main()
