#!/usr/bin/env python3
"""Checks the format and the lint rules of every C++ file: `./dev lint`.

A clean clang-tidy result is remembered under a key made of everything of ours that it depends on: the
file, the headers of ours it includes, the rules, the compile command and the linter's version. A file
is analysed again when one of these changes, so repeated runs and continuous integration take seconds.
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

ROOT = Path(__file__).resolve().parents[2]
OUR_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
SLOW_SECONDS = 60  # A file takes about 5; above this it probably includes two heavy libraries.


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


class Keys:
    """Names the state of everything a file's lint result depends on."""

    def __init__(self, build):
        self._build = str(build)
        self._includes = {}
        version = subprocess.run(["clang-tidy", "--version"], check=True, capture_output=True)
        self._linter = version.stdout + Path(__file__).read_bytes()

    def key(self, source, command):
        digest = hashlib.sha256(self._linter)
        digest.update(command.replace(self._build, "BUILD").replace(str(ROOT), "ROOT").encode())
        for rules in [ROOT / ".clang-tidy", *self._folder_rules(source)]:
            digest.update(rules.read_bytes())
        for path in sorted(self._closure(source)):
            digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
        return digest.hexdigest()

    @staticmethod
    def _folder_rules(source):
        folders = [folder for folder in source.parents if ROOT in folder.parents]
        return [folder / ".clang-tidy" for folder in folders if (folder / ".clang-tidy").is_file()]

    def _closure(self, source):
        seen, todo = {source}, [source]
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
        for candidate in (ROOT / "src" / room, ROOT / room, path.parent / name):
            if candidate.is_file():
                return candidate
        return None


# GCC's precompiled headers mean nothing to the linter, and a file has to stand without them.
GCC_ONLY = re.compile(r" (-Winvalid-pch|-fpch-preprocess|-Wno-restrict|-Wno-stringop-overflow|-include \S+cmake_pch\.hxx)")


def compile_commands(build):
    """Our own .cc files of the compile database, with their commands as the linter is to see them;
    its share of nvcc's work is left to nvcc. The database of these is written to build/lint."""
    entries = json.loads((build / "compile_commands.json").read_text())
    kept = {}
    for entry in entries:
        source = Path(entry["file"]).resolve()
        if source.suffix == ".cc" and ROOT in source.parents and build not in source.parents:
            kept[source] = entry | {"command": GCC_ONLY.sub("", entry["command"])}
    folder = build / "lint"
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(list(kept.values())))
    return {source: kept[source]["command"] for source in sorted(kept)}


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("LOCKSTEP_LINT_CACHE") or Path(base) / "lockstep-lint")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def tidy(build, jobs, only):
    """Runs clang-tidy where the cache has no clean result; returns the number of files with findings."""
    keys, cache = Keys(build), cache_folder()
    todo, commands = [], compile_commands(build)
    if only:
        commands = {source: command for source, command in commands.items()
                    if any(word in str(source.relative_to(ROOT)) for word in only)}
    for source, command in commands.items():
        mark = cache / keys.key(source, command)
        if mark.exists():
            mark.touch()  # Keeps it from ageing out.
        else:
            todo.append((source, mark))
    print(f"clang-tidy: {len(commands)} files, {len(todo)} to analyse, "
          f"{len(commands) - len(todo)} known to be clean", flush=True)

    def analyse(item):
        start = time.monotonic()
        run = subprocess.run(["clang-tidy", "--quiet", "-p", str(build / "lint"), str(item[0])],
                             capture_output=True, text=True)
        return item, run, time.monotonic() - start

    failed = 0
    with ThreadPoolExecutor(jobs) as pool:
        for future in as_completed([pool.submit(analyse, item) for item in todo]):
            (source, mark), run, seconds = future.result()
            name = source.relative_to(ROOT)
            if seconds > SLOW_SECONDS:
                print(f"warning: {name} took {seconds:.0f} s to analyse", flush=True)
            if run.returncode == 0:
                mark.touch()
                continue
            failed += 1
            print(run.stdout.replace(f"{ROOT}/", "") or run.stderr, flush=True)
    forget_old(cache)
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
    for tool in ("clang-format", "clang-tidy"):
        if shutil.which(tool) is None:
            sys.exit(f"lint: {tool} is missing; run ./dev setup")

    sources = our_files(".h", ".cc", ".cu", ".cuh")
    if options.only:
        sources = [name for name in sources if any(word in name for word in options.only)]
    unformatted = badly_formatted(sources)
    for name in unformatted:
        print(f"{name}: not formatted; run ./dev format")
    print(f"clang-format: {len(sources)} files, {len(unformatted)} to format", flush=True)
    failed = tidy(options.build.resolve(), options.jobs, options.only)
    print(f"lint: {len(unformatted) + failed} files with findings")
    return 1 if unformatted or failed else 0


if __name__ == "__main__":
    sys.exit(main())
