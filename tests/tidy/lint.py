#!/usr/bin/env python3
"""Checks the format and the lint rules of every C++ file: `./dev lint`.

Files are analysed as they are compiled, several in one translation unit where the build is a unity
build, and units that can be are analysed together (packs.py). A clean clang-tidy result is remembered under
a key made of everything of ours that it depends on: the unit's files, the headers of ours they include, the
rules, the compile command and the linter's version. A unit is analysed again when one of these changes.

clang-tidy comes from PyPI: a recent release leaves the system's headers out of what it matches and
takes a quarter of the time of Debian's. clang-format is Debian's, so that editors agree with it.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import packs

ROOT = Path(__file__).resolve().parents[2]
OUR_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
SLOW_SECONDS = 60  # A unit takes about 3; above this it probably includes two heavy libraries.
LINTER = "clang-tidy==23.1.4"


def our_files(*suffixes):
    """The files git tracks or would track, as paths relative to the root, sorted."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return sorted(name for name in set(listing)
                  if name.endswith(suffixes) and (ROOT / name).is_file())


def badly_formatted(names):
    """The files that clang-format would change."""
    def check(name):
        run = subprocess.run(["clang-format", "--dry-run", "-Werror", name],
                             cwd=ROOT, capture_output=True, text=True)
        return name if run.returncode != 0 else None

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [name for name in pool.map(check, names) if name]


def rule_folders(unit):
    """The folders whose rules a unit is judged by, the nearest first."""
    return tuple(folder for folder in (unit.folder(), *unit.folder().parents)
                 if (ROOT / folder / ".clang-tidy").is_file())


class Keys:
    """Names the state of everything a file's lint result depends on."""

    def __init__(self, build):
        self._build = str(build)
        self._includes = {}
        self._linter = Path(__file__).read_bytes() + Path(packs.__file__).read_bytes()

    def key(self, unit):
        digest = hashlib.sha256(self._linter)
        command = unit.command.replace(self._build, "BUILD").replace(str(ROOT), "ROOT")
        digest.update(command.encode())
        for folder in rule_folders(unit):
            digest.update((ROOT / folder / ".clang-tidy").read_bytes())
        for path in sorted(self._closure(unit.files)):
            digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
        return digest.hexdigest()

    def headers(self, unit):
        """The headers of ours that a unit includes, and those that these include."""
        return sorted(self._closure(unit.files) - set(unit.files))

    def _closure(self, files):
        seen, todo = set(files), list(files)
        while todo:
            for header in self._included(todo.pop()):
                if header not in seen:
                    seen.add(header)
                    todo.append(header)
        return seen

    def _included(self, path):
        if path not in self._includes:
            names = [name.decode() for name in OUR_INCLUDE.findall(path.read_bytes())]
            self._includes[path] = [found for name in names if (found := self._find(path, name))]
        return self._includes[path]

    @staticmethod
    def _find(path, name):
        room = name.removeprefix("lockstep/")
        for candidate in (ROOT / "src" / room, ROOT / room, ROOT / "include" / name, path.parent / name):
            if candidate.is_file():
                return candidate
        return None


# GCC's precompiled headers, its garbage and its false alarms mean nothing to the linter.
GCC_ONLY = re.compile(r" (-Winvalid-pch|-fpch-preprocess|--param=ggc-min-heapsize=\d+|-Wno-restrict"
                      r"|-Wno-stringop-overflow|-Wno-subobject-linkage|-Wno-array-bounds"
                      r"|-Wno-mismatched-new-delete|-include \S+cmake_pch\.hxx)")


class Unit:
    """One translation unit: a .cc file of ours, or CMake's file that includes several."""

    def __init__(self, entry, build):
        self.source = Path(entry["file"]).resolve()
        self.command = GCC_ONLY.sub("", entry["command"])
        self.entry = entry | {"command": self.command}
        self.is_unity = (build in self.source.parents and self.source.suffix != ".cu" and
                         self.source.name.startswith("unity_"))
        self.files = [self.source]
        if self.is_unity:
            text = self.source.read_bytes()
            self.files = [Path(name.decode()) for name in OUR_INCLUDE.findall(text)]

    def is_ours(self, build):
        return self.is_unity or (self.source.suffix == ".cc" and ROOT in self.source.parents and
                                 build not in self.source.parents)

    def name(self):
        names = [str(path.relative_to(ROOT)) for path in self.files]
        return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"

    def folder(self):
        return self.files[0].relative_to(ROOT).parent

    def is_about(self, words):
        return not words or any(word in str(path.relative_to(ROOT))
                                for path in self.files for word in words)


def units_of(build):
    """The units with code of ours, by source; nvcc's share is left to nvcc. A database of them, as
    the linter is to see them, is written to build/lint."""
    entries = json.loads((build / "compile_commands.json").read_text())
    units = {unit.source: unit for entry in entries
             if (unit := Unit(entry, build)).is_ours(build)}
    for rules in our_files(".clang-tidy"):  # A unity build's units lie in the build folder.
        (build / rules).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / rules, build / rules)
    folder = build / "lint"
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(
        json.dumps([unit.entry for unit in units.values()]))
    return [units[source] for source in sorted(units)]


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("LOCKSTEP_LINT_CACHE") or Path(base) / "lockstep-lint")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def linter(build):
    """The pinned clang-tidy, fetched into the build folder the first time."""
    folder = build / "lint" / LINTER.replace("==", "-")
    program = folder / "bin" / "clang-tidy"
    if not program.exists():
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--clear", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check",
                        LINTER], check=True)
    return program


class Linter:
    """Runs clang-tidy on packs of units, and on ever smaller parts of a pack that has findings."""

    def __init__(self, program, build):
        self._program = program
        self._build = build
        self.taken_apart = []  # Packs with findings, halves of packs among them.

    def analyse(self, pack):
        """The units of a pack that have findings, each with what the linter says of it."""
        if len(pack.units) == 1:
            said = self._findings(pack.units[0])
            return [(pack.units[0], said)] if said else []
        if self._is_clean(pack):
            return []
        self.taken_apart.append(pack)
        return [found for half in pack.halves() for found in self.analyse(half)]

    def _is_clean(self, pack):
        name = hashlib.sha256(pack.text().encode()).hexdigest()[:16]
        rules = rule_folders(pack.units[0])[0]  # clang-tidy looks for them from a source's folder upwards.
        source = self._build / rules / f"lint_pack_{name}.cxx"
        folder = self._build / "lint" / name
        folder.mkdir(exist_ok=True)
        source.write_text(pack.text())
        (folder / "compile_commands.json").write_text(json.dumps([pack.entry(source)]))
        try:
            return self._run(folder, source).returncode == 0
        finally:
            source.unlink()
            shutil.rmtree(folder)

    def _findings(self, unit):
        start = time.monotonic()
        run = self._run(self._build / "lint", unit.source)
        seconds = time.monotonic() - start
        if seconds > SLOW_SECONDS:
            print(f"warning: {unit.name()} took {seconds:.0f} s to analyse", flush=True)
        if run.returncode == 0:
            return ""
        said = run.stdout.replace(f"{ROOT}/", "") or run.stderr
        return said or f"{unit.name()}: the linter ended with {run.returncode}"

    def _run(self, database, source):
        return subprocess.run([self._program, "--quiet", "-p", database, source], capture_output=True,
                              text=True)


def tidy(build, jobs, only):
    """Runs clang-tidy where the cache has no clean result; returns how many units have findings."""
    keys, cache = Keys(build), cache_folder()
    units = [unit for unit in units_of(build) if unit.is_about(only)]
    marks = {unit: cache / keys.key(unit) for unit in units}
    todo = []
    for unit, mark in marks.items():
        if mark.exists():
            mark.touch()  # Keeps it from ageing out.
        else:
            todo.append(unit)
    todo_packs = packs.packs_of(todo, rule_folders, keys.headers)
    print(f"clang-tidy: {sum(len(unit.files) for unit in units)} files in {len(units)} units, "
          f"{len(todo)} to analyse in {len(todo_packs)} packs, {len(units) - len(todo)} known to be clean", flush=True)

    runner = Linter(linter(build), build)
    failed = 0
    with ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(runner.analyse, pack): pack for pack in todo_packs}
        for future in as_completed(running):
            found = dict(future.result())
            for unit in running[future].units:
                if unit not in found:
                    marks[unit].touch()
            for said in found.values():
                failed += 1
                print(said, flush=True)
    forget_old(cache)
    print(f"clang-tidy: {len(runner.taken_apart)} packs and parts of packs taken apart")
    return failed


def forget_old(cache, days=60):
    for mark in cache.iterdir():
        if time.time() - mark.stat().st_mtime > days * 86400:
            mark.unlink(missing_ok=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path, help="a configured build folder")
    parser.add_argument("only", nargs="*", help="lint only files whose path contains one of these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if shutil.which("clang-format") is None:
        sys.exit("lint: clang-format is missing; run ./dev setup")

    sources = our_files(".h", ".cc", ".cu", ".cuh")
    if options.only:
        sources = [name for name in sources if any(word in name for word in options.only)]
    unformatted = badly_formatted(sources)
    for name in unformatted:
        print(f"{name}: not formatted; run ./dev format")
    print(f"clang-format: {len(sources)} files, {len(unformatted)} to format", flush=True)
    failed = tidy(options.build.resolve(), options.jobs, options.only)
    print(f"lint: {len(unformatted)} files to format, {failed} units with findings")
    return 1 if unformatted or failed else 0


if __name__ == "__main__":
    sys.exit(main())
