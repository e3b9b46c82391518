"""The copy of the sources that is broken on purpose, under build-mutation/; the tree itself is never touched."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Sites need libclang, which a copy does not.
    from sites import Site

ROOT = Path(__file__).resolve().parent.parent.parent
WORK = ROOT / "build-mutation"
TREE = WORK / "tree"
# Inside the tree: relative to it paths are those of any other build, for compiler caches.
BUILD = TREE / "build"
HERE = Path(__file__).parent
COPIED = ["CMakeLists.txt", "CMakePresets.json", "cmake", "include", "src", "sim", "real", "gpu",
          "harness", "python", "tests", "scenarios", "examples", "bench", "docs", "README.md",
          ".clang-tidy"]
ROOMS = ("src", "sim", "real", "gpu", "harness", "python/native")
_ERROR = re.compile(r"^(?:\S*?/)?((?:src|sim|real|gpu|harness|python)/\S+?):(\d+):\d+: (?:fatal )?error:",
                    re.M)
# What no test runs, or only one that judges sources.
_NOT_BUILT = re.compile(r"(live_\w+_probe|peer_\w+|tidy_test|foreign_sum_gloo|(?<!scale)_bench)$")
_TARGET = re.compile(r"^(\S+): CXX_(?:EXECUTABLE|SHARED_LIBRARY|MODULE_LIBRARY)_LINKER__", re.M)


class BuildFailed(Exception):
    """The copy does not build, and no defect of ours is why."""


def run(command: list[str | Path], **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, **options)  # type: ignore[call-overload,no-any-return]


def files_of(revision: str) -> Path:
    """A commit's files, for a working tree in the middle of a change."""
    folder = WORK / "commit"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    archive = subprocess.Popen(["git", "-C", str(ROOT), "archive", revision], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", str(folder)], stdin=archive.stdout, check=True)
    if archive.wait() != 0:
        raise SystemExit("git archive failed")
    return folder


def sync(source: Path, instead: dict[str, bytes] | None = None) -> None:
    """Makes the copy equal to `source`, but for the files in `instead`; unchanged files keep their times, so builds
    stay small."""
    wanted = set()
    for file, content in (instead or {}).items():
        _write(TREE / file, content)
        wanted.add(TREE / file)
    for name in COPIED:
        top = source / name
        for path in [top] if top.is_file() else top.rglob("*"):
            if path.is_dir() or "__pycache__" in path.parts:
                continue
            target = TREE / path.relative_to(source)
            if target in wanted:
                continue
            wanted.add(target)
            if target.exists() and target.read_bytes() == path.read_bytes():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
    for path in list(TREE.rglob("*")):
        if path.is_file() and path not in wanted and BUILD not in path.parents:
            path.unlink()


def _write(target: Path, content: bytes) -> None:
    if not target.exists() or target.read_bytes() != content:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def configure() -> None:
    """Raises BuildFailed."""
    if (BUILD / "build.ninja").exists():
        return
    made = run(["cmake", "--preset", "release", "-DLOCKSTEP_GPU=OFF"], cwd=TREE)
    if made.returncode != 0:
        raise BuildFailed(made.stdout + made.stderr)


def sources(top: Path) -> list[str]:
    """What may be broken: the rooms' sources, relative to the top."""
    return sorted(str(path.relative_to(top)) for room in ROOMS for path in (top / room).rglob("*.cc"))


def switched(text: bytes, sites: dict[int, Site]) -> bytes:
    """The text with every defect and its switch in it. Requires: no two sites overlap."""
    for number, site in sorted(sites.items(), key=lambda item: -item[1].begin):
        is_on = f"::lockstep_mutants::on({number})"
        # Lines stay where they are: places are part of what the tests expect.
        before, after = site.before, site.after.replace("\n", " ")
        new = (f"if (!{is_on}) {before}" if site.is_statement else
               f"({is_on} ? ({after}) : ({before}))")
        text = text[:site.begin] + new.encode() + text[site.end:]
    return text


def planted(sites: dict[int, Site], source: Path) -> dict[str, bytes]:
    """The files that differ from those of `source` where every defect and its switch is in them."""
    files = {f"src/base/{name}": (HERE / f"{name}.in").read_bytes()
             for name in ("mutant_switch.h", "mutant_switch.cc")}
    listed = "src/base/CMakeLists.txt"
    files[listed] = (source / listed).read_bytes().replace(b"SOURCES ", b"SOURCES mutant_switch.cc ", 1)
    by_file: dict[str, dict[int, Site]] = defaultdict(dict)
    for number, site in sites.items():
        by_file[site.file][number] = site
    for file, own in by_file.items():
        files[file] = (b'#include "lockstep/base/mutant_switch.h"\n#line 1 "' + str(TREE / file).encode() +
                       b'"\n' + switched((source / file).read_bytes(), own))
    return files


def targets() -> list[str]:
    """What tests run. Requires: configure() has been called."""
    listed = run(["ninja", "-C", BUILD, "-t", "targets", "all"]).stdout
    return [name for name in _TARGET.findall(listed) if not _NOT_BUILT.search(name) and "[" not in name]


def build(sites: dict[int, Site], source: Path, jobs: int) -> dict[int, Site]:
    """Builds the copy of `source` with all defects in it, each switched off.

    Returns: the sites without those that do not compile.
    Raises: BuildFailed.
    """
    while True:
        sync(source, planted(sites, source))
        configure()
        environment = {**os.environ, "CCACHE_BASEDIR": str(TREE), "CCACHE_NOHASHDIR": "1"}
        built = run(["ninja", "-C", BUILD, "-j", str(jobs), "-k", "0", "build.ninja"], env=environment)
        if built.returncode == 0:
            built = run(["ninja", "-C", BUILD, "-j", str(jobs), "-k", "0", "--quiet", *targets()], env=environment)
        if built.returncode == 0:
            return sites
        output = built.stdout + built.stderr
        left = without_broken(sites, output)
        if len(left) == len(sites):
            raise BuildFailed(output[-4000:])
        sites = left


def without_broken(sites: dict[int, Site], output: str) -> dict[int, Site]:
    """The sites on no line at which a compiler complains; of a file with none of those, no site."""
    places: dict[str, set[int]] = defaultdict(set)
    for file, line in _ERROR.findall(output):
        places[file].add(int(line))
    left = {}
    for number, site in sites.items():
        lines = places.get(site.file, set())
        last = site.line + site.before.count("\n")
        hit = any(site.line <= line <= last for line in lines)
        any_hit = any(other.file == site.file and
                      any(other.line <= line <= other.line + other.before.count("\n") for line in lines)
                      for other in sites.values())
        if not (hit or (lines and not any_hit)):
            left[number] = site
    return left
