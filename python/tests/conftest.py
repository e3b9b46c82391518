"""What the tests of the package share: where it lies, and why PyTorch may be missing."""
from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

collect_ignore = []
try:
    import torch  # noqa: F401
except ImportError:
    collect_ignore = ["torch_jobs"]  # run.py says why, and ctest counts them as skipped.
