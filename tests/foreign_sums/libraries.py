"""All-reduces by libraries that are not ours: which algorithms there are, and how to run them.

Gloo and its headers are installed. MPICH and the headers of both MPI libraries may be unpacked into a folder instead,
from Debian's packages, where they disturb nothing.
"""
from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
UNPACKED = ("libopenmpi-dev", "mpich", "libmpich12", "libmpich-dev", "libslurm38")
LIBRARY_PATH = "usr/lib/x86_64-linux-gnu"
OPEN_MPI = {"linear": 1, "nonoverlapping": 2, "recursive_doubling": 3, "ring": 4, "segmented_ring": 5, "rabenseifner": 6}
MPICH = ("recursive_doubling", "reduce_scatter_allgather")
GLOO = ("ring", "ring_chunked", "halving_doubling", "bcube", "new_ring", "new_bcube")


@dataclass(frozen=True)
class Algorithm:
    library: str
    name: str
    how: str = "plain"

    @property
    def label(self) -> str:
        return "-".join([self.library, self.name] + ([] if self.how == "plain" else [self.how]))

    def adds(self, kind: str) -> bool:
        """Gloo has no bf16; sums are made wide from f32; what is truncated is of 16 bits."""
        if self.library == "gloo":
            return kind != "bf16"
        if self.how == "wide":
            return kind == "f32"
        return self.how != "truncated" or kind in ("f16", "bf16")


@dataclass
class Libraries:
    """Programs by library, and what the dynamic linker needs for them."""

    programs: dict[str, Path] = field(default_factory=dict)
    unpacked: Path | None = None

    def algorithms(self) -> list[Algorithm]:
        names: dict[str, tuple[str, ...]] = {"gloo": GLOO, "openmpi": tuple(OPEN_MPI), "mpich": MPICH}
        return [Algorithm(library, name) for library in self.programs for name in names[library]]

    def reduce(self, folder: Path, ranks: int, algorithm: Algorithm) -> None:
        """Reduces the cases of `folder`, to files NAME.LABEL."""
        program = str(self.programs[algorithm.library])
        if algorithm.library == "gloo":
            run([program, str(folder), algorithm.name, str(ranks)])
        elif algorithm.library == "openmpi":
            run(["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks),
                 "--mca", "coll_tuned_use_dynamic_rules", "1",
                 "--mca", "coll_tuned_allreduce_algorithm", str(OPEN_MPI[algorithm.name]),
                 program, str(folder), algorithm.label, algorithm.how])
        else:
            assert self.unpacked is not None
            run([str(self.unpacked / "usr/bin/mpiexec.hydra"), "-n", str(ranks), program, str(folder), algorithm.label, algorithm.how],
                LD_LIBRARY_PATH=str(self.unpacked / LIBRARY_PATH), MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=algorithm.name,
                MPIR_CVAR_DEVICE_COLLECTIVES="none", MPIR_CVAR_ENABLE_SMP_COLLECTIVES="0")


def run(command: list[str], **environment: str) -> None:
    done = subprocess.run(command, text=True, capture_output=True, timeout=300, env={**os.environ, **environment}, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr or done.stdout}")


def compile_gloo(to: Path) -> Path:
    program = to / "sum_gloo"
    run(["g++", "-O2", "-std=c++17", str(HERE / "sum_gloo.cc"), "-o", str(program), "-lgloo", "-lpthread"])
    return program


def unpack(to: Path) -> Path:
    """Downloads Debian's packages of the MPI libraries and unpacks them below `to`."""
    root = to / "root"
    if not (root / "usr/bin/mpiexec.hydra").exists():
        to.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "-qq", *UNPACKED], cwd=to, check=True)
        for package in sorted(to.glob("*.deb")):
            run(["dpkg", "-x", str(package), str(root)])
    return root


def compile_mpi(root: Path, to: Path) -> dict[str, Path]:
    source = str(HERE / "sum_mpi.c")
    headers = {"openmpi": root / LIBRARY_PATH / "openmpi/include", "mpich": root / "usr/include/x86_64-linux-gnu/mpich"}
    # Open MPI itself is installed; MPICH lies beside its headers.
    linked = {"openmpi": ["-l:libmpi.so.40"], "mpich": [f"-L{root / LIBRARY_PATH}", "-l:libmpich.so.12"]}
    for library, include in headers.items():
        run(["gcc", "-O2", source, f"-I{include}", "-o", str(to / f"sum_{library}"), *linked[library], "-lm"])
    return {library: to / f"sum_{library}" for library in headers}


def all_libraries(to: Path) -> Libraries:
    root = unpack(to / "mpi")
    return Libraries({"gloo": compile_gloo(to), **compile_mpi(root, to)}, root)
