#!/usr/bin/env python3
"""Lets PyTorch's CUDA wheel be imported where no CUDA library is installed, for work on the CPU.

  cuda_stubs.py SITE_PACKAGES/torch/lib

PyPI offers no CPU-only wheel for x86-64 Linux, and the CUDA one links more than a dozen libraries that
weigh gigabytes. The loader only wants their names and symbols: one small library defines every symbol
that is missing, each as a function that says "no device", and stands in under every missing name.
Needs gcc and readelf.
"""
from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

STAND_IN = "liblockstep_no_cuda.so"
CUDA_ERROR_NO_DEVICE = 100
# These return text, and PyTorch prints what they return.
RETURNS_TEXT = re.compile(r"(Get|get)(Last)?(Error|Status|Result)(String|Name)|ErrorString")
IDENTIFIER = re.compile(r"(?!_?Py)[A-Za-z_]\w*")  # What begins with Py the interpreter has.
VENDOR = re.compile(r"lib(cu|nv|nccl)")


class Symbol(NamedTuple):
    name: str
    version: str
    defined: bool
    weak: bool


def output_of(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols_of(library: Path) -> list[Symbol]:
    found = []
    for line in output_of("readelf", "--wide", "--dyn-syms", str(library)).splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].rstrip(":").isdigit():
            continue
        name, _, version = fields[7].partition("@")
        found.append(Symbol(name, version.lstrip("@"), fields[6] != "UND", fields[4] == "WEAK"))
    return found


def needs_of(library: Path) -> set[str]:
    dynamic = output_of("readelf", "--wide", "--dynamic", str(library))
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic))


def system_libraries() -> dict[str, Path]:
    """Those of this machine's own word size: others have other symbols."""
    listing = output_of("/sbin/ldconfig", "--print-cache")
    found = re.findall(r"^\s+(\S+) \(libc6,x86-64.*\) => (\S+)$", listing, re.M)
    return {name: Path(path) for name, path in reversed(found)}


def missing_from(folder: Path) -> tuple[dict[str, str], list[str]]:
    """The undefined symbols with their versions, and the missing libraries."""
    own = [path for path in folder.glob("*.so*") if not path.is_symlink() and path.name != STAND_IN]
    symbols = [symbol for path in own for symbol in symbols_of(path)]
    needed = set().union(*(needs_of(path) for path in own)) - {path.name for path in own}
    libraries = sorted(name for name in needed if VENDOR.match(name))
    on_system = system_libraries()
    here = {symbol.name for symbol in symbols if symbol.defined}
    for name in needed.difference(libraries):
        if name in on_system:
            here |= {symbol.name for symbol in symbols_of(on_system[name]) if symbol.defined}
    missing = {symbol.name: symbol.version for symbol in symbols
               if not symbol.defined and not symbol.weak and symbol.name not in here
               and IDENTIFIER.fullmatch(symbol.name)}
    return missing, libraries


def source_of(names: list[str]) -> str:
    lines = ['static char none[] = "this machine has no CUDA library";']
    for name in names:
        if RETURNS_TEXT.search(name):
            lines.append(f"char* {name}(void) {{ return none; }}")
        else:
            lines.append(f"long {name}(void) {{ return {CUDA_ERROR_NO_DEVICE}; }}")
    return "\n".join(lines) + "\n"


def version_script_of(missing: dict[str, str]) -> str:
    by_version: dict[str, list[str]] = {}
    for name, version in missing.items():
        if version:
            by_version.setdefault(version, []).append(name)
    return "".join(f"{version} {{ global: {'; '.join(names)}; }};\n"
                   for version, names in sorted(by_version.items()))


def main(folder: Path) -> None:
    missing, libraries = missing_from(folder)
    source, script = folder / "no_cuda.c", folder / "no_cuda.map"
    source.write_text(source_of(sorted(missing)))
    script.write_text(version_script_of(missing))
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", f"-Wl,--version-script={script}",
                    "-o", str(folder / STAND_IN), str(source)], check=True)
    for name in libraries:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(STAND_IN)
    print(f"{STAND_IN}: {len(missing)} symbols for {len(libraries)} libraries")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
