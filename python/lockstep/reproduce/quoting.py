"""Texts of a trace, which may come from anyone, inside of files that are run, and on a terminal."""
from __future__ import annotations


def escaped(text: str) -> str:
    """What stands for `text` between the quotes of Python, and of TOML: one line that ends neither them nor a comment."""
    return plain("".join("\\" + letter if letter in '"\\' else letter for letter in text))


def quoted(text: str) -> str:
    """`text` as a string of Python, and of TOML."""
    return f'"{escaped(text)}"'


def plain(text: str) -> str:
    """`text` on one line, with escapes for what a terminal would obey."""
    return "".join(letter if letter.isprintable() else _escape(ord(letter)) for letter in text)


def _escape(code: int) -> str:
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"
