#!/usr/bin/env python3
"""Draws small defects over the sources and says which of them no test notices.

usage: mutate.py [ROOM...] [--sample N] [--seed S] [--commit REVISION] [--afresh] [--record]

ROOM is a folder such as src/laws or sim; none = all. Sites come from the syntax tree (sites.py). All
drawn defects are compiled into one build, each with a switch of its own; one run of the suite shows
which tests reach which; each defect is then switched on alone under the tests that reach it. What a
run has found out is kept in build-mutation/: the next one goes on from there, and asks about survivors
only tests that are new or have changed.
Exit code 0: at least 90 in 100 were noticed, and each survivor is judged in survivors.toml.
"""
from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import repeat
from pathlib import Path

from copied_tree import BUILD, HERE, ROOT, TREE, WORK, BuildFailed, build, configure, files_of, run, sources, sync
from kept import Measurements, Verdicts, measure
from sites import Operator, Site, Unit, sites_of, units_of
from trials import Reach, bound_resources, noticed_by, tests_of

WANTED_SHARE = 0.9
# Of the sample that DRAWN.md is about. Chosen before it was drawn; anyone who changes a test because of it and wants to
# know what the tests notice chooses another.
SEED = 1938
# They compile, or judge sources that are not as people wrote them.
LEFT_OUT = re.compile(r"^(tidy|rooms|pages|readme|install|contraction|lint|live|mutation|python\.types)|wheel")
CACHE = WORK / "sites.json"
BROKEN = WORK / "does_not_compile.json"
VERDICTS = WORK / "verdicts.json"
TORCH = "torch-2.15.0"
REACHED = WORK / "reached.json"
SURVIVORS = HERE / "survivors.toml"


def all_sites(source: Path, rooms: list[str]) -> list[Site]:
    """Every site of the rooms, in the order of files. Files are parsed once, until they change."""
    known = json.loads(CACHE.read_text()) if CACHE.exists() else {}
    files = {file: f"{file} {hash_of(source / file)}" for file in sources(source)
             if not rooms or any(file.startswith(room + "/") for room in rooms)}
    if unknown := [file for file, key in files.items() if key not in known]:
        sync(source)
        configure()
        for found in parsed(unknown):
            known |= {files[file]: [[s.line, s.begin, s.end, s.operator.value, s.before, s.after, s.is_statement, s.nth]
                                    for s in sites] for file, sites in found.items()}
            CACHE.write_text(json.dumps(known))
    return [Site(file, line, begin, end, Operator(operator), before, after, statement, nth)
            for file, key in files.items()
            for line, begin, end, operator, before, after, statement, nth in known[key]]


def parsed(files: list[str]) -> Iterator[dict[str, list[Site]]]:
    """The sites of each: those of what is not built are none."""
    units = units_of(BUILD)
    together: dict[Unit, list[str]] = defaultdict(list)
    for file in files:
        if unit := units.get(TREE / file):
            together[unit].append(file)
        else:
            yield {file: []}
    with ProcessPoolExecutor() as pool:
        yield from pool.map(sites_of, repeat(TREE), together.values(), together.keys())


def built(wanted: dict[int, Site], source: Path, jobs: int) -> dict[int, Site]:
    """Builds them. Returns: those that compile. Raises: BuildFailed."""
    known = set(json.loads(BROKEN.read_text())) if BROKEN.exists() else set()
    defects = {number: defect_of(site, source) for number, site in wanted.items()}
    sites = build({number: site for number, site in wanted.items() if defects[number] not in known}, source, jobs)
    BROKEN.write_text(json.dumps(sorted(known | {defects[number] for number in wanted if number not in sites})))
    return sites


def defect_of(site: Site, source: Path) -> str:
    """Says which it is, in which content of its file."""
    return f"{site.name()} {hash_of(source / site.file)}"


def borrow_torch() -> None:
    """The PyTorch that `./dev test` fetched, if it did, for the tests that need one."""
    own = BUILD / TORCH
    if (ROOT / "build" / TORCH).exists() and not own.exists():
        own.symlink_to(ROOT / "build" / TORCH)


def hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def drawn(sites: list[Site], n: int, seed: int) -> dict[int, Site]:
    """n of them, no two in one place: switches cannot be nested.

    A site's place in the order depends on nothing but the seed and its name, so that a change of one source leaves
    the draw from the others as it is.
    """
    order = sorted(sites, key=lambda site: hashlib.sha256(f"{seed} {site.name()}".encode()).digest())
    taken: dict[str, list[tuple[int, int]]] = {}
    chosen: list[Site] = []
    for site in order:
        if len(chosen) == n:
            break
        places = taken.setdefault(site.file, [])
        if all(site.end <= begin or end <= site.begin for begin, end in places):
            places.append((site.begin, site.end))
            chosen.append(site)
    return dict(enumerate(sorted(chosen, key=lambda site: (site.file, site.begin))))


def judged() -> dict[str, str]:
    """Survivors that were looked at: site -> why no test can, or need, notice it."""
    if not SURVIVORS.exists():
        return {}
    return {row["site"]: row["why"] for row in tomllib.loads(SURVIVORS.read_text())["survivor"]}


def room_of(file: str) -> str:
    return str(Path(file).parent)


def campaign(sites: dict[int, Site], source: Path, reach: Reach, verdicts: Verdicts,
             jobs: int) -> dict[int, str | None]:
    """Who noticed each. Those that few tests reach are tried first: they take the least time."""
    results: dict[int, str | None] = {}

    def one(number: int) -> None:
        site = sites[number]
        defect = defect_of(site, source)
        by = verdicts.of(defect)
        if by is None:
            begin = time.time()
            by = noticed_by(number, reach, room_of(site.file), verdicts.survived(defect))
            print(f"{number:4d} {site.file}:{site.line}: {by or 'SURVIVES'}" +
                  ("" if reach.tests_of(number) else ", unreached"), flush=True)
            verdicts.add(defect, by, begin)
        results[number] = by

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, sorted(sites, key=lambda number: sum(reach.seconds[t] for t in reach.tests_of(number)))))
    return results


def report(sites: dict[int, Site], results: dict[int, str | None], dropped: int, args: argparse.Namespace) -> str:
    """What the results of this campaign say, as a page."""
    known = judged()
    rooms: dict[str, Counter[str]] = {}
    survivors = []
    for number, by in sorted(results.items()):
        site = sites[number]
        kind = "noticed" if by else ("judged" if site.name() in known else "survives")
        rooms.setdefault(room_of(site.file), Counter())[kind] += 1
        if not by:
            survivors.append(f"| `{site.file}:{site.line}` | {site.operator.value} | "
                             f"`{cell(site.before)}` | `{cell(site.after)}` | "
                             f"{known.get(site.name(), '**not judged**')} |")
    n_noticed = sum(counts["noticed"] for counts in rooms.values())
    lines = ["# Drawn defects, and those that no test noticed", "",
             f"Made by `./dev mutate --sample {args.sample} --seed {args.seed} --record` of commit {commit_of(args)}: "
             f"{len(results)} defects that compile ({dropped} do not), {n_noticed} of them noticed "
             f"({n_noticed / max(1, len(results)):.1%}). Several survivors change nothing; they are counted nevertheless.",
             "", "The seed was fixed before the draw. A change of the sources changes the draw from what is changed.", "",
             "| room | noticed | survives |", "|---|---|---|"]
    lines += [f"| `{room}` | {counts['noticed']} | {counts['judged'] + counts['survives']} |"
              for room, counts in sorted(rooms.items())]
    lines += ["", "| place | operator | before | after | judged |", "|---|---|---|---|---|", *survivors]
    return "\n".join(lines) + "\n"


def commit_of(args: argparse.Namespace) -> str:
    """The commit and its date."""
    shown = run(["git", "-C", ROOT, "show", "--no-patch", "--format=%h (%cs)", args.commit or "HEAD"])
    return shown.stdout.strip() or "(none)"


def cell(text: str) -> str:
    words = " ".join(text.split()).replace("|", "\\|")
    return (words if len(words) <= 90 else words[:87] + "...") or "(nothing)"


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev mutate", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", metavar="ROOM")
    parser.add_argument("--sample", type=int, default=300, help="how many defects (%(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="of the draw (%(default)s)")
    parser.add_argument("--commit", help="break this commit, not the working tree")
    parser.add_argument("--afresh", action="store_true", help="try those again that an earlier run saw noticed")
    parser.add_argument("--record", action="store_true", help="write tests/mutation/DRAWN.md")
    args = parser.parse_args()
    for room in args.rooms:
        if not (ROOT / room).is_dir():
            parser.error(f"{room}: no such folder; rooms are folders such as src/laws")
    source = files_of(args.commit) if args.commit else ROOT
    jobs = int(os.environ.get("JOBS") or os.cpu_count() or 2)
    try:
        found = all_sites(source, [room.rstrip("/") for room in args.rooms])
        wanted = drawn(found, args.sample, args.seed)
        print(f"building {len(wanted)} defects", flush=True)
        sites = built(wanted, source, jobs)
    except (BuildFailed, ValueError) as error:
        print(f"mutate: {error}", file=sys.stderr)
        return 2
    print(f"{len(wanted) - len(sites)} do not compile; running the suite with none switched on", flush=True)
    borrow_torch()
    bound_resources()
    draw = hashlib.sha256("\n".join(f"{n} {site.name()}" for n, site in sites.items()).encode()).hexdigest()
    reach = measure(tests_of(BUILD, LEFT_OUT), jobs, Measurements(REACHED, BUILD, draw))
    for name in reach.failed:
        print(f"not asked, it fails without a defect: {name}", flush=True)
    if args.afresh:
        VERDICTS.unlink(missing_ok=True)
    results = campaign(sites, source, reach, Verdicts(VERDICTS), jobs)
    page = report(sites, results, len(wanted) - len(sites), args)
    print(page)
    if args.record:
        (HERE / "DRAWN.md").write_text(page)
    open_ = [n for n, by in results.items() if not by and sites[n].name() not in judged()]
    share = sum(1 for by in results.values() if by) / max(1, len(results))
    print(f"{share:.0%} noticed; {len(open_)} survivors are not judged")
    return 0 if share >= WANTED_SHARE and not open_ else 1


if __name__ == "__main__":
    sys.exit(main())
