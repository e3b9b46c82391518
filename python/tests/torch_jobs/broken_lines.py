"""Breaks healthy scripts line by line, and lists what nothing notices.

  broken_lines.py BUILD [SCRIPT..]    of python/tests/scripts; without one, all that are healthy (./dev mutate scripts)

A line is left to rank 0 alone, left out, or exchanged with the next; `rank` becomes 0 and `world` 1; True becomes
False and False True. Each variant runs on two ranks, recorded, and is judged. One that computes the same as the
script is as right, and one that ends with an error is noticed by its user. Of the rest a person has to say which are
mistakes: a script with another layer is as right, too (docs/decisions/0023).
"""
from __future__ import annotations

import ast
import copy
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from pathlib import Path

import lockstep

sys.path.insert(0, str(Path(__file__).resolve().parent))
from forked import SCRIPTS, run_job  # noqa: E402

RANKS = 2
ON_RANK_0 = "__import__('os').environ['RANK'] == '0'"
NAMES = {"rank": 0, "world": 1, "n_ranks": 1, "size": 1}
# Without these there is no job, or another healthy one.
KEPT = ("init_process_group", "destroy_process_group", "manual_seed", "print(", "main()")
COMPOUND = (ast.For, ast.With, ast.If, ast.While)
APART = (ast.FunctionDef, ast.ClassDef, ast.Return, ast.Import, ast.ImportFrom)


class Outcome(Enum):
    FOUND = "found"
    ADVISED = "advised"
    FAILED = "failed"
    SAME = "computes the same"
    MISSED = "missed"


@dataclass(frozen=True)
class Variant:
    what: str
    source: str


@dataclass(frozen=True)
class Judged:
    codes: list[int]
    findings: list[str]
    advice: list[str]
    digest: str


def places(tree: ast.Module) -> list[tuple[list[ast.stmt], int]]:
    """Each statement of the script, as a list and a place in it."""
    found: list[tuple[list[ast.stmt], int]] = []

    def walk(body: list[ast.stmt]) -> None:
        for i, statement in enumerate(body):
            found.append((body, i))
            for part in ("body", "orelse", "finalbody"):
                inner = getattr(statement, part, None)
                if isinstance(inner, list):
                    walk(inner)

    walk(tree.body)
    return found


def _broken_at(tree: ast.Module, n: int) -> Iterator[tuple[str, ast.Module]]:
    body, i = places(tree)[n]
    statement, text = body[i], ast.unparse(body[i])
    words = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    if words or isinstance(statement, APART) or (not isinstance(statement, COMPOUND) and any(word in text for word in KEPT)):
        return
    line = text.splitlines()[0]
    acts = isinstance(statement, (ast.Expr, ast.AugAssign)) or (
        isinstance(statement, ast.Assign) and not isinstance(statement.targets[0], (ast.Name, ast.Tuple)))
    if acts:
        for what, replaced in (("rank 0 only", ast.parse(f"if {ON_RANK_0}: pass").body[0]), ("left out", ast.Pass())):
            changed = copy.deepcopy(tree)
            its_body, its_i = places(changed)[n]
            if isinstance(replaced, ast.If):
                replaced.body = [its_body[its_i]]
            its_body[its_i] = replaced
            yield f"{what}: {line}", changed
    if i + 1 < len(body) and not isinstance(statement, ast.Assign) and not isinstance(body[i + 1], APART):
        changed = copy.deepcopy(tree)
        its_body, its_i = places(changed)[n]
        its_body[its_i], its_body[its_i + 1] = its_body[its_i + 1], its_body[its_i]
        yield f"after the next: {line}", changed


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.Module]]:
    def is_one(node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            return node.id in NAMES and isinstance(node.ctx, ast.Load)
        return isinstance(node, ast.Constant) and isinstance(node.value, bool)

    for n, node in enumerate(one for one in ast.walk(tree) if is_one(one)):
        changed = copy.deepcopy(tree)
        there = [one for one in ast.walk(changed) if is_one(one)][n]
        value = NAMES[node.id] if isinstance(node, ast.Name) else not getattr(node, "value", False)
        for parent in ast.walk(changed):
            for part, old in ast.iter_fields(parent):
                if old is there:
                    setattr(parent, part, ast.Constant(value))
                elif isinstance(old, list) and there in old:
                    old[old.index(there)] = ast.Constant(value)
        yield f"{ast.unparse(node)} is {value} in line {getattr(node, 'lineno', 0)}", changed


def variants(source: str) -> Iterator[Variant]:
    tree = ast.parse(source)
    for n in range(len(places(tree))):
        for what, changed in _broken_at(tree, n):
            yield Variant(what, ast.unparse(ast.fix_missing_locations(changed)))
    for what, changed in _constants(tree):
        yield Variant(what, ast.unparse(ast.fix_missing_locations(changed)))


def judge(source: str, name: str, command: Path) -> Judged:
    """Runs a script under this name, among the scripts that it may import."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):  # Where a script leaves its files.
        scratch = Path(folder)
        beside = scratch / "scripts"
        shutil.copytree(SCRIPTS, beside)
        (beside / name).write_text(source)
        trace = scratch / "trace"
        ran = run_job(beside / name, RANKS, trace, scratch)
        if not trace.exists():
            return Judged(ran.codes, [], [], "")
        report = lockstep.check(trace)
        shown = subprocess.run([command, "check", trace], capture_output=True, text=True).stdout
    findings = sorted({one.cause or one.law for one in report.findings})
    advice = sorted({line.split(":")[0] for law in report.laws for line in law.advice})
    return Judged(ran.codes, findings, advice, shown.rpartition("result digest ")[2].strip())


def outcome(healthy: Judged, broken: Judged) -> Outcome:
    if broken.findings:
        return Outcome.FOUND
    if set(broken.advice) - set(healthy.advice):
        return Outcome.ADVISED
    if any(broken.codes):
        return Outcome.FAILED
    return Outcome.SAME if broken.digest == healthy.digest else Outcome.MISSED


def main(arguments: list[str]) -> None:
    from caught_test import HEALTHY, UNWRAPPED

    build, *names = arguments
    command = Path(build).resolve() / "bin" / "lockstep"
    for name in names:
        if not (SCRIPTS / name).is_file():
            likely = get_close_matches(name, [path.name for path in SCRIPTS.glob("*.py")], 1)
            print(f"no script {name} in {SCRIPTS}" + (f"; did you mean {likely[0]}?" if likely else ""), file=sys.stderr)
            sys.exit(2)
    n: Counter[Outcome] = Counter()
    for name in names or (*HEALTHY, *UNWRAPPED):
        source = (SCRIPTS / name).read_text()
        healthy = judge(source, name, command)
        for variant in variants(source):
            came = outcome(healthy, judge(variant.source, name, command))
            n[came] += 1
            if came is Outcome.MISSED:
                print(f"{name}: {variant.what}", flush=True)
    print(f"{sum(n.values())} variants: " + ", ".join(f"{n[one]} {one.value}" for one in Outcome))


if __name__ == "__main__":
    main(sys.argv[1:])
