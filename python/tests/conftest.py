"""What the tests of the package share: where it lies, and why PyTorch may be missing."""
from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "torch_jobs"), str(HERE / "virtual")]

pytest_plugins = ["pytester"]
collect_ignore = []
try:
    import torch  # noqa: F401
except ImportError:
    collect_ignore = ["torch_jobs", "virtual", "soak"]  # run.py says why, and ctest counts them as skipped.
