"""Releases from PyPI, each in a folder of its own beside the environment that has PyTorch."""
from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


_WEB = ("tqdm==4.70.1", "requests==2.34.2", "urllib3==2.8.0", "idna==3.20", "certifi==2026.10.18",
        "charset-normalizer==3.5.2")
SETS = {"web": _WEB,
        "hugging-face": ("psutil==7.2.2", "pyyaml==6.0.3", "huggingface_hub==0.34.4",
                         "safetensors==0.8.0", *_WEB)}
"""Names for what several exhibits need."""


class NotInstalled(Exception):
    """A release that could not be fetched. For people."""


def expanded(needs: tuple[str, ...]) -> list[str]:
    """With the sets replaced by what is in them."""
    return [release for need in needs for release in SETS.get(need, (need,))]


def folder_of(museum: Path, release: str) -> Path:
    return museum / release.replace("==", "-")


def install(museum: Path, python: Path, release: str) -> Path:
    """Installs "name==version" without what it depends on, once. Returns: its folder.

    Raises NotInstalled.
    """
    folder = folder_of(museum, release)
    if folder.exists():
        return folder
    half = folder.with_name(folder.name + ".half")
    shutil.rmtree(half, ignore_errors=True)
    done = subprocess.run(
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
         "--no-compile", "--target", str(half), release], capture_output=True, text=True)
    if done.returncode != 0:
        shutil.rmtree(half, ignore_errors=True)
        lines = done.stderr.strip().splitlines()
        raise NotInstalled(f"{release}: {lines[-1] if lines else 'pip failed'}")
    half.rename(folder)
    return folder
