"""What the museum shows: a folder per exhibit, with the script and what is to be found."""
from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from museum.releases import expanded

HERE = Path(__file__).parent


class Refused(Exception):
    """An exhibit that cannot be understood, or is not there. For people."""


@dataclass(frozen=True)
class Expected:
    """A finding that must be among those on the buggy release. None = not looked at."""

    law: str
    cause: str | None = None
    step: int | None = None
    epoch: int | None = None
    ranks: tuple[int, ...] | None = None
    tensor: str | None = None
    field: str | None = None
    site: str | None = None  # How it ends.

    def fits(self, finding: Any) -> bool:
        for name in ("law", "cause", "step", "epoch", "ranks", "tensor", "field"):
            wanted = getattr(self, name)
            if wanted is not None and getattr(finding, name) != wanted:
                return False
        return self.site is None or finding.site.endswith(self.site) or \
            finding.other_site.endswith(self.site)

    def __str__(self) -> str:
        given = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self)
                 if f.name != "law" and getattr(self, f.name) is not None]
        return " ".join([self.law, *given])


@dataclass(frozen=True)
class Exhibit:
    """A bug that was released, and the release that fixed it."""

    name: str
    package: str
    buggy: str
    fixed: str
    upstream: str
    wrong: str  # One sentence.
    expect: tuple[Expected, ...]
    needs: tuple[str, ...] = ()  # Other releases, "name==version", or sets of them.
    ranks: int = 2
    buffers: str = ""  # As lockstep.check takes it.
    word: str = ""  # What had to be said to Lockstep, and why.
    not_caught: str = ""  # Why Lockstep does not notice it yet.
    torch: str = "2.15.0"
    stuck_after: int = 30  # Seconds without an event, after which the job is ended.
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def script(self) -> Path:
        return HERE / self.name / "train.py"

    def releases(self, version: str) -> list[str]:
        """What its job needs beside PyTorch."""
        return [f"{self.package}=={version}", *expanded(self.needs)]


def names(folder: Path = HERE) -> list[str]:
    return sorted(path.parent.name for path in folder.glob("*/exhibit.toml"))


def load(name: str, folder: Path = HERE) -> Exhibit:
    """Raises Refused, with the file and what is wrong with it."""
    path = folder / name / "exhibit.toml"
    try:
        given = tomllib.loads(path.read_text())
        expect = tuple(Expected(**_plain(row)) for row in given.pop("expect", []))
        exhibit = Exhibit(name=name, expect=expect, **_plain(given))
    except (tomllib.TOMLDecodeError, TypeError) as error:
        raise Refused(f"{path}: {error}") from None
    if not expect:
        raise Refused(f"{path}: expects nothing: add [[expect]] with a law")
    return exhibit


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


def chosen(asked: list[str], folder: Path = HERE) -> list[Exhibit]:
    """The exhibits of these names, or all. Raises Refused for a name that is none."""
    known = names(folder)
    for name in asked:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1, 0.4)
            hint = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(known)}"
            raise Refused(f"no exhibit '{name}'; {hint}")
    return [load(name, folder) for name in asked or known]
