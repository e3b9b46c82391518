"""Texts of a trace, which may come from anyone, inside of files that are run."""
from __future__ import annotations

from lockstep.terminal import plain


def escaped(text: str) -> str:
    """What stands for `text` between the quotes of Python, and of TOML: one line that ends neither them nor a comment."""
    return plain("".join("\\" + letter if letter in '"\\' else letter for letter in text))


def quoted(text: str) -> str:
    """`text` as a string of Python, and of TOML."""
    return f'"{escaped(text)}"'
