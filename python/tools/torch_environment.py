#!/usr/bin/env python3
"""Makes the virtual environment with a current PyTorch that tests use, once a build folder.

  torch_environment.py FOLDER [VERSION]
  torch_environment.py FOLDER --libraries

FOLDER/bin/python can then `import torch`. What has been made is kept. When it cannot be made, for want
of a network or a disk, FOLDER/why-not.txt says why, the exit code is 1, and the tests that need it
repeat the reason. About 540 MB are downloaded and 1.5 GB stored; CUDA's libraries are left out
(cuda_stubs.py). With --libraries, FOLDER/libraries gets what people train with on top of PyTorch, for the long tests:
180 MB.
"""
from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "2.15.0"
PURE = ("filelock", "typing_extensions", "sympy", "networkx", "jinja2", "fsspec", "mpmath", "numpy",
        "setuptools", "expecttest", "pytest", "pytest-xdist", "hypothesis", "safetensors")
# Without their own wish for PyTorch.
LIBRARIES = ("accelerate==1.15.0", "lightning==2.6.6", "transformers==5.23.0", "huggingface_hub", "lightning-utilities",
             "torchmetrics", "tokenizers", "regex", "httpx2", "httpcore2", "anyio", "h11", "certifi", "idna", "sniffio",
             "truststore", "pyyaml", "tqdm", "psutil", "requests")
STUBS = Path(__file__).with_name("cuda_stubs.py")


class Failed(Exception):
    """What could not be done, for people."""


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise Failed(f"{' '.join(command[:6])}: exit code {done.returncode}: "
                     f"{lines[-1] if lines else 'no output'}")
    return done.stdout.strip()


def is_ready(python: Path, version: str) -> bool:
    """Reads the marker alone: importing PyTorch takes seconds."""
    marker = python.parents[1] / "ready.txt"
    return python.exists() and marker.exists() and marker.read_text() == marker_of(version)


def marker_of(version: str) -> str:
    return f"torch {version}\n{' '.join(PURE)}\n{STUBS.read_text()}"


def made_by_another(folder: Path) -> bool:
    settings = folder / "pyvenv.cfg"
    home = f"home = {Path(sys.base_prefix) / 'bin'}"
    return settings.exists() and home not in settings.read_text().splitlines()


def make(folder: Path, version: str) -> None:
    python = folder / "bin" / "python"
    if made_by_another(folder):
        shutil.rmtree(folder)  # Otherwise its interpreter would run with the library of this one.
    run(sys.executable, "-m", "venv", str(folder))
    pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--upgrade", *PURE)
    run(*pip, "--no-deps", f"torch=={version}")
    where = run(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    run(sys.executable, str(STUBS), f"{where}/torch/lib")
    found = run(str(python), "-c", "import torch, torch.distributed as d; "
                                   "assert d.is_gloo_available(); print(torch.__version__)")
    if not found.startswith(version):
        raise Failed(f"asked for PyTorch {version}, got {found}")
    (folder / "ready.txt").write_text(marker_of(version))


def add_libraries(folder: Path) -> int:
    ready = folder / "libraries" / "ready.txt"
    if ready.exists() and ready.read_text() == " ".join(LIBRARIES):
        return 0
    try:
        run(str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
            "--upgrade", "--target", str(folder / "libraries"), *LIBRARIES)
    except Failed as failure:
        print(f"no libraries: {failure}", file=sys.stderr)
        return 1
    ready.write_text(" ".join(LIBRARIES))
    return 0


def main(folder: Path, version: str = VERSION) -> int:
    if version == "--libraries":
        return add_libraries(folder)
    if is_ready(folder / "bin" / "python", version):
        return 0
    print(f"making {folder} with PyTorch {version}", file=sys.stderr)
    try:
        make(folder, version)
    except (Failed, OSError) as failure:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "why-not.txt").write_text(f"{failure}\n")
        print(f"no PyTorch {version}: {failure}", file=sys.stderr)
        return 1
    (folder / "why-not.txt").unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
