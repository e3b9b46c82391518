"""Command lines: what they may hold is checked once, as they are read, and a mistake is one sentence."""
from __future__ import annotations

import argparse
import difflib
import math
import re
from typing import TYPE_CHECKING

from lockstep import terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import IO, Any

EXIT_USAGE = 2
MOST_SECONDS = (1 << 31) // 1000 - 1  # The native part counts milliseconds in 32 bits.


class Usage(Exception):
    """A command line that cannot be understood or simulated; the message says why."""


class Parser(argparse.ArgumentParser):
    """Raises Usage for what it does not understand, with the option that was meant."""

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:
        known, left = self.parse_known_args(args, namespace)
        if left:
            near = difflib.get_close_matches(left[0].partition("=")[0], self._option_string_actions, 1)
            raise Usage("unrecognized arguments: " + " ".join(left) + (f"; did you mean '{near[0]}'?" if near else ""))
        return known

    def error(self, message: str) -> None:  # type: ignore[override]
        raise Usage(message.removeprefix("argument "))

    def _print_message(self, message: str, file: IO[str] | None = None) -> None:
        terminal.show(message.removesuffix("\n"))  # The help: nothing else is printed here.


def whole(least: int, most: int) -> Callable[[str], int]:
    """Reads a whole number within bounds."""
    def read(text: str) -> int:
        if re.fullmatch(r"[+-]?[0-9]{1,20}", text) is None or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"must be a whole number from {least} to {most}, not '{text}'")
        return int(text)
    return read


def seconds(text: str) -> float:
    """Reads a time that is not negative."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"must be a number of seconds from 0 to {MOST_SECONDS}, not '{text}'")
    return value
