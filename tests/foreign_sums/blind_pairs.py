#!/usr/bin/env python3
"""Results of libraries that are not ours, shown to `lockstep explain-diff` without a word about who made them.

usage: blind_pairs.py LOCKSTEP [--seed N] [--pairs N] [--plants N] [--gloo PROGRAM] [--folder DIR] [--never-accuse]

With --gloo, that program alone makes the results; otherwise Gloo, Open MPI and MPICH do, and what is missing of them is
downloaded as Debian packages and unpacked into --folder. Exits with 1 if one pair is classified wrong. With --never-accuse, what is
impossible is taken for rounding, which must be noticed.
"""
from __future__ import annotations

import argparse
import collections
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from drawn_cases import RANKS, Case, draw_case, excess_of
from libraries import Algorithm, Libraries, all_libraries
from number_types import Numbers, safetensors, same
from orders import added_as, documented
from planted_errors import plant

OTHER_WAYS = (Algorithm("openmpi", "ring", "two-level"), Algorithm("mpich", "recursive_doubling", "two-level"),
              Algorithm("openmpi", "recursive_doubling", "wide"), Algorithm("openmpi", "ring", "flushed"),
              Algorithm("mpich", "recursive_doubling", "flushed"), Algorithm("openmpi", "linear", "truncated"))
ROUNDING = {"equal", "named-orders", "within-bound"}


@dataclass
class Shown:
    """A pair as the command sees it, and what it must answer."""

    case: Case
    first: Numbers
    second: Numbers
    expected: set[str]
    what: str  # For people: never given to the command.
    rank: int | None = None
    wrong: frozenset[str] = frozenset()  # Algorithms that left the interval by themselves.


def make_results(libraries: Libraries, ranks: int, cases: list[Case], folder: Path) -> None:
    folder.mkdir()
    (folder / "cases.txt").write_text("".join(f"{case.name} {case.wire.name} {case.size}\n" for case in cases))
    for case in cases:
        (folder / f"{case.name}.in").write_bytes(b"".join(case.wire.encode(part) for part in case.sent()))
    ways = libraries.algorithms() + [way for way in OTHER_WAYS if way.library in libraries.programs]
    for algorithm in ways:
        chosen = [case for case in cases if algorithm.adds(case.wire.name)]
        if algorithm.how == "wide":
            chosen = [case for case in chosen if case.wire is case.kind]
        if not chosen:
            continue
        # A library that cannot add a type would stop at it.
        (folder / "cases.txt").write_text("".join(f"{case.name} {case.wire.name} {case.size}\n" for case in chosen))
        libraries.reduce(folder, ranks, algorithm)
        for case in chosen:
            with np.errstate(all="ignore"):
                case.results[algorithm] = case.received((folder / f"{case.name}.{algorithm.label}").read_bytes())


def expected_of(case: Case, algorithm: Algorithm) -> set[str]:
    """What the command may say of this result beside a healthy one."""
    excess = excess_of(case, case.results[algorithm], flushed=algorithm.how == "flushed", unit=case.wire.unit)
    if excess.near <= 1.0:
        return ROUNDING
    if excess.far <= 1.0 and (case.wire is not case.kind or algorithm.how == "truncated"):
        return {"only-if"} if excess.near > 2.0 else ROUNDING | {"only-if"}
    # Nothing of what the programs do on purpose explains it: the library is wrong, by more or by less than what another
    # way of computing could do.
    return {"impossible"} if excess.far > 1.0 else ROUNDING | {"only-if", "impossible"}


def is_documented(case: Case, algorithm: Algorithm) -> bool:
    """Also checks what is written down here against what the library did."""
    if algorithm.how != "plain" or case.wire is not case.kind:
        return False
    with np.errstate(all="ignore"):
        total = documented(algorithm.library, algorithm.name, case.kind, case.sent())
        if total is None:
            return False
        if case.reduction == "mean-after":
            total = case.kind.rounded(total / case.ranks)
    assert same(total, case.results[algorithm]), f"{algorithm.label} of {case.name} adds in another order than is written down"
    return True


def pair_of(case: Case, a: Algorithm, b: Algorithm) -> Shown:
    first, second = case.results[a], case.results[b]
    ways = [expected_of(case, a), expected_of(case, b)]
    expected = ROUNDING
    for verdict in ("only-if", "impossible"):
        if any(verdict in way for way in ways):
            expected = set.union(*(way for way in ways if verdict in way))
    if expected == ROUNDING:
        equal = same(first, second)
        expected = {"equal"} if equal else {"named-orders", "within-bound"}
        both_documented = is_documented(case, a) & is_documented(case, b)
        if both_documented and not equal:
            expected = {"named-orders"}
    wrong = frozenset(each.label for each, way in zip((a, b), ways, strict=True) if way == {"impossible"})
    return Shown(case, first, second, expected, f"{a.label} beside {b.label}", wrong=wrong)


def ask(lockstep: str, shown: Shown, folder: Path, as_array: bool) -> dict[str, Any]:
    case, ending = shown.case, "npy" if as_array else "safetensors"

    def write(name: str, values: Numbers) -> str:
        path = folder / f"{name}.{ending}"
        if as_array:
            np.save(path, values.astype({"f32": "<f4", "f64": "<f8"}[case.kind.name]))
        else:
            path.write_bytes(safetensors(case.kind, case.kind.encode(values)))
        return str(path)

    command = [lockstep, "explain-diff", write("a", shown.first), write("b", shown.second), "--json"]
    for rank, part in enumerate(case.parts):
        command += ["--contributions", write(f"rank{rank}", part)]
    if case.reduction.startswith("mean"):
        command.append("--mean")
    if case.factor is not None:
        command.append(f"--factor={case.factor!r}")
    done = subprocess.run(command, text=True, capture_output=True, timeout=120, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode == 0) == (answer["verdict"] in ROUNDING), "the exit code says what the verdict says"
    return answer


def wrong_runs(shown: Shown, answer: dict[str, Any]) -> str:
    """Computes each order that the command names again."""
    tensor = answer["tensors"][0]
    for key, result in (("first", shown.first), ("second", shown.second)):
        for run in tensor[key]["runs"] or []:
            part = slice(run["begin"], run["end"])
            with np.errstate(all="ignore"):
                again = added_as(shown.case.kind, run, [x[part] for x in shown.case.parts], shown.case.factor)
            if not same(again, result[part]):
                return f"the {key} result is not what {run} gives"
    return ""


def complaint(shown: Shown, answer: dict[str, Any]) -> str:
    if answer["verdict"] not in shown.expected:
        return f"'{answer['verdict']}' instead of {sorted(shown.expected)}"
    if wrong := wrong_runs(shown, answer):
        return wrong
    found = answer["tensors"][0]["impossible"]
    if shown.rank is not None and f"rank {shown.rank} had been" not in found["looks_like"]:
        says_enough = shown.case.size >= 17 and shown.case.drawn_as in ("normal", "wide")
        return f"it looks like '{found['looks_like']}', not like rank {shown.rank}" if says_enough else ""
    return ""


def drawn_pairs(rng: np.random.Generator, cases: list[Case], n: int) -> list[Shown]:
    """Of equal results few are shown."""
    pairs: list[Shown] = []
    number = 0
    while len(pairs) < n:
        case = cases[number % len(cases)]
        number += 1
        names = sorted(case.results, key=lambda each: each.label)
        a, b = rng.choice(len(names), 2, replace=False)
        if not same(case.results[names[a]], case.results[names[b]]) or rng.uniform() < 0.05:
            pairs.append(pair_of(case, names[a], names[b]))
    return pairs


def planted_pairs(rng: np.random.Generator, cases: list[Case], n: int) -> tuple[list[Shown], int]:
    """Healthy results with an error, and how many draws were inside of what rounding can do."""
    usable = [case for case in cases if case.wire is case.kind and case.drawn_as != "odd"]
    pairs: list[Shown] = []
    n_inside = 0
    for number in range(20 * n):
        if len(pairs) == n:
            break
        case = usable[number % len(usable)]
        healthy = [each for each in case.results if each.how == "plain" and excess_of(case, case.results[each]).near <= 1.0]
        chosen = healthy[int(rng.integers(len(healthy)))]
        planted, tries = plant(rng, case, case.results[chosen], len(pairs))
        n_inside += tries
        if planted is None:
            continue
        what = f"{chosen.label}, {planted.kind}"
        pairs.append(Shown(case, case.results[chosen], planted.result, {"impossible"}, what, planted.rank))
    return pairs, n_inside


def judge(lockstep: str, pairs: list[Shown], folder: Path, accuses: bool) -> tuple[collections.Counter[str], list[str]]:
    folder.mkdir()
    verdicts: collections.Counter[str] = collections.Counter()
    complaints = []
    for number, shown in enumerate(pairs):
        case = shown.case
        # Arrays of numpy are read if they are finite; safetensors always.
        finite = all(bool(np.isfinite(each).all()) for each in (*case.parts, shown.first, shown.second))
        answer = ask(lockstep, shown, folder, number % 2 == 0 and finite and case.kind.name in ("f32", "f64"))
        if not accuses and answer["verdict"] == "impossible":
            answer["verdict"] = "within-bound"
        verdicts[answer["verdict"]] += 1
        if text := complaint(shown, answer):
            drawn = f"{case.kind.name} over {case.wire.name}, {case.ranks} ranks, {case.size} elements, {case.drawn_as}, {case.reduction}"
            complaints.append(f"pair {number} ({shown.what}; {drawn}): {text}")
    return verdicts, complaints


def counted(verdicts: collections.Counter[str]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lockstep")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--plants", type=int, default=60)
    parser.add_argument("--gloo", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--never-accuse", action="store_true")
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        folder = arguments.folder or work / "libraries"
        folder.mkdir(parents=True, exist_ok=True)
        libraries = Libraries({"gloo": arguments.gloo}) if arguments.gloo else all_libraries(folder)
        cases: list[Case] = []
        for ranks in RANKS if arguments.pairs >= 100 else (3, 4):
            own = [draw_case(rng, f"case{ranks}-{i}", ranks) for i in range(max(6, arguments.pairs // (2 * len(RANKS))))]
            own = [case for case in own if arguments.gloo is None or case.wire.name != "bf16"]
            make_results(libraries, ranks, own, work / f"of-{ranks}")
            cases += own
        order = rng.permutation(len(cases))
        cases = [cases[i] for i in order]
        pairs = drawn_pairs(rng, cases, arguments.pairs)
        verdicts, complaints = judge(arguments.lockstep, pairs, work / "pairs", not arguments.never_accuse)
        planted, n_inside = planted_pairs(rng, cases, arguments.plants)
        of_planted, more = judge(arguments.lockstep, planted, work / "planted", not arguments.never_accuse)
    print(f"{sum(verdicts.values())} pairs of {', '.join(libraries.programs)}: {counted(verdicts)}")
    wrong = sorted(frozenset().union(*(shown.wrong for shown in pairs)))
    print(f"wrong without a plant, by exact fractions: {', '.join(wrong) or 'none'}")
    print(f"{len(planted)} planted errors: {counted(of_planted)}; {n_inside} draws were no larger than rounding and drawn again")
    print(f"{len(complaints) + len(more)} classified wrong")
    for text in complaints + more:
        print("  " + text, file=sys.stderr)
    return 1 if complaints or more or len(planted) < arguments.plants else 0


if __name__ == "__main__":
    sys.exit(main())
