"""Tables by which the program numbers words: classes, characters, the words of a vocabulary.

A set of texts has another order in every process, and a folder may be listed in another one on every machine. Ranks that
number words in such an order mean different words by the same number, and no batch shows it: each is right on its rank.
The program's variables do. They are looked through once, before the first step of an optimizer.
"""
from __future__ import annotations

import sys
from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from lockstep.enums import DataPart
from lockstep.torch.variables import search

if TYPE_CHECKING:
    from lockstep.torch.recorder import Recorder

SEAM = "numberings"
FEWEST_WORDS = 3  # Two may be left and right, by which ranks name their neighbours.
MOST_WORDS = 1 << 16
MOST_CHARACTERS = 64  # Of a word of a list.


class Numbering(NamedTuple):
    """Digests: equal words, whatever their numbers are, and equal words with equal numbers."""

    words: torch.Tensor
    numbers: torch.Tensor


def numbering_of(value: Any) -> Numbering | None:
    """What a dict or a list numbers: words by whole numbers without a gap, or the other way round; words by their places.

    Names of files and sentences in a list may be data, which a rank may shuffle."""
    kind = type(value)
    size = dict.__len__(value) if issubclass(kind, dict) else len(value)
    if issubclass(kind, Counter) or not FEWEST_WORDS <= size <= MOST_WORDS:
        return None
    first, words = _of_dict(value) if issubclass(kind, dict) else _of_list(value)
    if len(words) < FEWEST_WORDS or len(set(words)) != len(words):
        return None
    return Numbering(_digest_of(sorted(words)), _digest_of([str(first), *words]))


def _of_dict(table: dict[Any, Any]) -> tuple[int, list[str]]:
    """The first number, and the words in the order of their numbers; empty where it is not a table."""
    entries = list(dict.items(table))
    pairs = entries if type(entries[0][0]) is int else [(number, word) for word, number in entries]
    if not all(type(number) is int and type(word) is str for number, word in pairs):
        return 0, []
    pairs.sort()
    first = pairs[0][0]
    if [number for number, _ in pairs] != list(range(first, first + len(pairs))):
        return 0, []
    return first, [word for _, word in pairs]


def _of_list(table: Any) -> tuple[int, list[str]]:
    words = list(table)
    return 0, words if all(map(_is_word, words)) else []


def _is_word(value: Any) -> bool:
    return type(value) is str and 0 < len(value) <= MOST_CHARACTERS and \
        not any(mark in value for mark in "/\\.") and len(value.split()) < 2


def _digest_of(words: list[str]) -> torch.Tensor:
    digest = blake2b("\0".join(words).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return torch.tensor(list(digest), dtype=torch.uint8)


def _write(recorder: Recorder) -> None:
    if recorder.pen is None:
        return
    for name, table in search(numbering_of, sys._getframe(1)).items():
        recorder.pen.data(-1, DataPart.VOCABULARY, "", name, [table.words])
        recorder.pen.data(-1, DataPart.NUMBERING, "", name, [table.numbers])


def install(recorder: Recorder) -> None:
    from torch.optim import optimizer as module

    written = False

    def before_step(_optimizer: Any, _args: Any, _kwargs: Any) -> None:
        nonlocal written
        if not written:
            written = True
            recorder.quietly(SEAM, lambda: _write(recorder))

    recorder.patches.on_undo(getattr(module, "register_optimizer_step_pre_hook")(before_step).remove)
