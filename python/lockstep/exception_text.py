"""What an exception says, which runs code of the program's: that may fail as well."""
from __future__ import annotations

UNSPEAKABLE = "<exception str() failed>"  # In Python's words.


def text_of(error: BaseException) -> str:
    """Its type and what it says."""
    try:
        said = str(error)
    except Exception:
        said = UNSPEAKABLE
    return f"{type(error).__name__}: {said}"


def line_of(error: BaseException) -> str:
    """The same in one line."""
    name, _, said = text_of(error).partition(": ")
    lines = said.strip().splitlines()
    return f"{name}: {lines[0]}" if lines else name
