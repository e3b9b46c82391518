"""Data sets by identity: samples of two of them are different ones, whatever their numbers."""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from torch.utils.data import Subset

if TYPE_CHECKING:
    from collections.abc import Callable

TRAIN = "train"
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

    def ids_of(self, data: Any, ids: list[int]) -> list[int]:
        """Numbers that no sample of another set has. A part of a set has the numbers of the whole."""
        while isinstance(data, Subset):
            ids, data = [int(data.indices[index]) for index in ids], data.dataset
        known = self._places.get(id(data))
        if known is None or known[0]() is not data:
            known = self._places[id(data)] = (place_of(data), self._n_sets)
            self._n_sets += 1
        first = known[1] * IDS_OF_A_SET
        return ids if first == 0 else [first + index for index in ids]

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
