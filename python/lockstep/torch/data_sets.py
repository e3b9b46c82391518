"""Data sets by identity: samples of two of them are different ones, whatever their numbers."""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import Subset

if TYPE_CHECKING:
    from collections.abc import Callable

TRAIN, EVAL = "train", "eval"
MOST_DIVIDED = 8  # Data sets whose samples are distinguished.
IDS_OF_A_SET = 1 << 40  # The samples of the n-th set have numbers from n times this on.


def place_of(data: Any) -> Callable[[], Any]:
    """Gives the data set for as long as it lives; one that cannot be watched lives on."""
    try:
        return weakref.ref(data)
    except TypeError:
        return lambda: data


class DataSets:
    def __init__(self) -> None:
        self._places: dict[int, tuple[Callable[[], Any], int]] = {}  # By id: where it is, its number.
        self._n_sets = 0
        self._training = 0
        self._trained_on: list[Callable[[], Any]] = []  # In this training, one after another.
        self._evaluated: list[Callable[[], Any]] = []  # One after another.
        self._divided: dict[int, Callable[[], Any]] = {}  # Data sets that were divided among the ranks, by id.
        self._rows: dict[int, tuple[Callable[[], Any], torch.Tensor]] = {}  # Of subsets, by id.

    def ids_of(self, data: Any, ids: list[int]) -> list[int]:
        """Numbers that no sample of another set has. A part of a set has the numbers of the whole."""
        while isinstance(data, Subset):
            ids, data = [int(data.indices[index]) for index in ids], data.dataset
        first = self._first_of_whole(data)
        return ids if first == 0 else [first + index for index in ids]

    def first_of(self, data: Any) -> int | None:
        """The number of the first sample of a whole set; None for a part of one."""
        return None if isinstance(data, Subset) else self._first_of_whole(data)

    def _first_of_whole(self, data: Any) -> int:
        known = self._places.get(id(data))
        if known is None or known[0]() is not data:
            known = self._places[id(data)] = (place_of(data), self._n_sets)
            self._n_sets += 1
        return known[1] * IDS_OF_A_SET

    def split_of(self, data: Any, training: int) -> str:
        """The split that a training calls this set: "train", and "train/2" for a second one that it
        trains on while the first lives."""
        if training != self._training:
            self._training = training
            self._trained_on.clear()
        if data is None:
            return TRAIN
        held = [place() for place in self._trained_on]
        nth = next((n for n, one in enumerate(held) if one is data), None)
        if nth is None:
            nth = next((n for n, one in enumerate(held) if one is None), len(held))
            self._trained_on[nth:nth + 1] = [place_of(data)]
        return TRAIN if nth == 0 else f"{TRAIN}/{nth + 1}"

    def evaluated(self, data: Any) -> str:
        """The split that a set which is evaluated is: "eval", "eval/2" for another one, ..."""
        if data is None:
            return EVAL
        held = [place() for place in self._evaluated]
        nth = next((n for n, one in enumerate(held) if one is data), None)
        if nth is None:
            nth = next((n for n, one in enumerate(held) if one is None), len(held))
            self._evaluated[nth:nth + 1] = [place_of(data)]
        return EVAL if nth == 0 else f"{EVAL}/{nth + 1}"

    def is_new(self, data: Any) -> bool:
        """Whether this is the first pass over a data set, one of the first few."""
        known = self._divided.get(id(data))
        if known is not None and known() is data or len(self._divided) >= MOST_DIVIDED:
            return False
        self._divided[id(data)] = place_of(data)
        return True

    def rows(self, data: Any) -> torch.Tensor | None:
        """Which rows of the whole set a subset has, in order; None for a whole set."""
        if not isinstance(data, Subset):
            return None
        known = self._rows.get(id(data))
        if known is None or known[0]() is not data:
            known = self._rows[id(data)] = (place_of(data), _rows_of(data))
        return known[1]


def _rows_of(data: Any) -> torch.Tensor:
    rows = torch.as_tensor(data.indices, dtype=torch.int64)
    while isinstance(data.dataset, Subset):
        data = data.dataset
        rows = torch.as_tensor(data.indices, dtype=torch.int64)[rows]
    return rows
