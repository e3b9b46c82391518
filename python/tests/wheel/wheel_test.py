"""The wheel, in an environment that has nothing else: no PyTorch, no compiler, no network.

It is made by pip and scikit-build-core, as for users, but of the files that this build folder holds
already. Each check has wheels that must not pass it.
"""
from __future__ import annotations

import ast
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ["LOCKSTEP_BUILD"])
TOOLS = BUILD / "wheel-tools" / "bin" / "python"
HANG = ROOT / "tests" / "golden" / "pytorch_hang"  # Its maker says which rank waits where.
VERSION = "0.1.0"

# What every Linux with glibc has: the libraries that manylinux's rules allow.
OF_THE_SYSTEM = re.compile(r"(ld-linux-x86-64|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s))\.so\.\d+")


@functools.cache
def without_network() -> tuple[str, ...]:
    """The command in front of another that takes its network away; none where the system does not let us."""
    command = (shutil.which("unshare") or "unshare", "--map-root-user", "--net")
    try:
        return command if subprocess.run([*command, "true"], capture_output=True).returncode == 0 else ()
    except OSError:
        return ()


class Home:
    """A virtual environment with one wheel in it."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        self.python = folder / "bin" / "python"
        subprocess.run([TOOLS, "-m", "pip", "--python", self.python, "--quiet", "--disable-pip-version-check",
                        "install", "--no-index", "--no-deps", "--no-compile", wheel], check=True)
        [self.package] = folder.glob("lib/python3*/site-packages/lockstep")

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """With this environment's own programs alone, and no network."""
        return subprocess.run([*without_network(), *command], capture_output=True, text=True, cwd=self.folder,
                              env={"PATH": str(self.folder / "bin"), "HOME": str(self.folder), "LC_ALL": "C.UTF-8"})

    def says(self, code: str) -> str:
        """What a Python program prints."""
        ran = self.run(self.python, "-c", code)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()


def make_wheel(folder: Path) -> Path:
    subprocess.run([TOOLS, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index",
                    "--no-build-isolation", f"--config-settings=build-dir={folder / 'cmake'}",
                    f"--config-settings=cmake.define.LOCKSTEP_BUILT={BUILD}", "--wheel-dir", folder,
                    ROOT / "python"], check=True)
    [wheel] = folder.glob("lockstep-*.whl")
    return wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def home(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(tmp_path_factory.mktemp("home") / "venv", wheel)


# -- the checks

def check_version(home: Home) -> None:
    ran = home.run(home.folder / "bin" / "lockstep", "--version")
    assert (ran.returncode, ran.stdout.strip()) == (0, f"lockstep {VERSION}"), ran.stdout + ran.stderr
    assert home.says("import lockstep; print(lockstep.__version__)") == VERSION


def check_hang(home: Home) -> None:
    """Rank 1 waits in line 13 for a file; rank 0 in the reduction of line 15."""
    ran = home.run(home.folder / "bin" / "lockstep", "check", "--json", HANG)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    [finding] = [found for law in json.loads(ran.stdout)["laws"] for found in law["findings"]]
    assert (finding["law"], finding["step"], finding["missing"]) == ("progress", 2, [1]), finding
    assert finding["site"] == "train.py:15" and "train.py:13" in finding["sentence"], finding
    found = home.says(f"import lockstep; [f] = lockstep.check({str(HANG)!r}).findings; print(f.law, f.missing, f.site)")
    assert found == "progress (1,) train.py:15"


def check_linked(home: Home) -> None:
    """Each library comes from the wheel, or is one that every Linux has."""
    for file in (home.package / "bin" / "lockstep", home.package / "_core.abi3.so"):
        lines = subprocess.run(["ldd", file], capture_output=True, text=True, check=True).stdout.splitlines()
        for line in lines:
            name, _, place = line.strip().partition(" => ")
            where = Path(place.partition(" (")[0])
            system = OF_THE_SYSTEM.fullmatch(Path(name.partition(" ")[0]).name) or "vdso" in name
            assert system or where.resolve().is_relative_to(home.package.resolve()), f"{file.name}: {line.strip()}"


def check_typed(home: Home) -> None:
    """The package is marked as typed, and the native part is what its stub says."""
    assert (home.package / "py.typed").exists(), "py.typed is missing"
    stub = ast.parse((home.package / "_core.pyi").read_text())
    # Dictionaries' types are for type checkers alone.
    said = {node.name: {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)}
            for node in stub.body if isinstance(node, ast.ClassDef)
            if not any(ast.unparse(base) == "TypedDict" for base in node.bases)}
    said |= {node.name: set() for node in stub.body if isinstance(node, ast.FunctionDef)}
    there = json.loads(home.says(
        "import json, lockstep._core as core; names = lambda x: [n for n in vars(x) if not n.startswith('__')]; "
        "print(json.dumps({n: names(getattr(core, n)) if isinstance(getattr(core, n), type) else [] "
        "for n in names(core)}))"))
    assert sorted(said) == sorted(there)
    for name, members in said.items():
        assert {member for member in members if not member.startswith("__")} == set(there[name]), name


CHECKS: tuple[Callable[[Home], None], ...] = (check_version, check_hang, check_linked, check_typed)


@pytest.mark.parametrize("check", CHECKS)
def test_the_wheel_passes(check: Callable[[Home], None], home: Home) -> None:
    check(home)


def test_there_is_neither_pytorch_nor_a_compiler_where_it_was_checked(home: Home) -> None:
    for program in ("c++", "g++", "cc", "cmake"):
        assert shutil.which(program, path=str(home.folder / "bin")) is None
    ran = home.run(home.python, "-c", "import torch")
    assert ran.returncode == 1 and "No module named 'torch'" in ran.stderr


def test_the_newest_symbol_of_glibc_is_the_one_that_the_page_names(home: Home) -> None:
    files = [home.package / "bin" / "lockstep", home.package / "_core.abi3.so", *home.package.glob("lib/*")]
    wanted = subprocess.run(["objdump", "--dynamic-syms", *files], capture_output=True, text=True, check=True).stdout
    newest = max(tuple(map(int, version.split("."))) for version in re.findall(r"\(GLIBC_([0-9.]+)\)", wanted))
    page = (ROOT / "docs" / "pytorch.md").read_text()
    assert f"glibc {newest[0]}.{newest[1]} or later" in page


# -- wheels that must not pass

def without(pattern: str) -> Callable[[str, bytes], bytes | None]:
    return lambda name, data: None if re.search(pattern, name) else data


def with_more_in_the_stub(name: str, data: bytes) -> bytes:
    return data + b"\ndef not_there() -> None: ...\n" if name.endswith("_core.pyi") else data


BROKEN: dict[str, tuple[Callable[[str, bytes], bytes | None], Callable[[Home], None]]] = {
    "no command": (without("lockstep/bin/lockstep$"), check_version),
    "no command to check with": (without("lockstep/bin/lockstep$"), check_hang),
    "no library": (without("lockstep/lib/libfmt"), check_linked),
    "no mark": (without("py.typed$"), check_typed),
    "a function too many in the stub": (with_more_in_the_stub, check_typed)}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_wheel_fails(what: str, wheel: Path, tmp_path: Path) -> None:
    change, check = BROKEN[what]
    broken = tmp_path / wheel.name
    left = []
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(broken, "w") as part:
        for entry in whole.infolist():
            data = change(entry.filename, whole.read(entry))
            if data is None:
                left.append(entry.filename)
            elif not entry.filename.endswith("RECORD"):
                part.writestr(entry, data)
        [record] = [name for name in whole.namelist() if name.endswith("RECORD")]
        rows = whole.read(record).decode().splitlines(keepends=True)
        part.writestr(record, "".join(row for row in rows if row.partition(",")[0] not in left))
    with pytest.raises(AssertionError):
        check(Home(tmp_path / "venv", broken))


def test_a_folder_that_was_not_built_makes_no_wheel(tmp_path: Path) -> None:
    ran = subprocess.run(["cmake", "-S", ROOT, "-B", tmp_path, f"-DLOCKSTEP_BUILT={tmp_path}"],
                         capture_output=True, text=True)
    assert ran.returncode == 1 and "_core.abi3.so is missing" in " ".join(ran.stderr.split())
