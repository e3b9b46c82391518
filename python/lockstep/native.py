"""Where the native command lies."""
from __future__ import annotations

import os
from pathlib import Path

NATIVE = Path(__file__).parent / "bin" / "lockstep"


def command() -> str:
    """The path of the native command, which can be run. Raises FileNotFoundError."""
    if not NATIVE.exists():
        raise FileNotFoundError(f"{NATIVE} is missing: only `lockstep record` works")
    if not os.access(NATIVE, os.X_OK):
        NATIVE.chmod(0o755)  # Wheels of old installers lose the mark.
    return str(NATIVE)
