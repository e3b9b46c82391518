"""What a data set holds, as tensors whose digest is equal where two ranks have the same set. No sample is read: that
may draw random numbers."""
from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import ConcatDataset, Subset

from lockstep.torch.data_read import MOST_ELEMENTS
from lockstep.torch.recorder import DTYPES

MOST_ENTRIES = 4096  # Of a list.
MOST_CHARACTERS = 1 << 16  # Of a word.


def contents_of(data: Any) -> list[torch.Tensor]:
    """Empty where nothing shows it: where no attribute has one entry per sample.

    Of a part of a set it is that of the whole, whose numbers samples have. An attribute without one entry per
    sample counts as well: sets of equal lists that take other parts of them differ in a number or a word.
    """
    while isinstance(data, Subset):
        data = data.dataset
    if isinstance(data, ConcatDataset):
        parts = [contents_of(part) for part in data.datasets]
        return [tensor for part in parts for tensor in part] if all(parts) else []
    try:
        size, attributes = len(data), vars(data)
    except TypeError:
        return []
    found: list[torch.Tensor] = []
    shows = False
    for name in sorted(attributes):
        value = attributes[name]
        # TensorDataset has its tensors in a tuple.
        for one in value if type(value) is tuple and _are_tensors(value) else (value,):
            tensor = _as_tensor(one)
            if tensor is not None:
                found.append(tensor)
                shows = shows or _n_entries(one) == size
    return found if shows else []


def _are_tensors(values: tuple[Any, ...]) -> bool:
    return bool(values) and all(isinstance(one, torch.Tensor) for one in values)


def _n_entries(value: Any) -> int:
    if isinstance(value, (bool, int, float, str)):
        return -1
    return len(value)


def _as_tensor(value: Any) -> torch.Tensor | None:
    if isinstance(value, (bool, int, float)):
        return _of_text(repr(value))
    if isinstance(value, str):
        return _of_text(value[:MOST_CHARACTERS])
    if type(value) is torch.Tensor:
        plain = value.device.type == "cpu" and value.dtype in DTYPES and value.layout == torch.strided
        return value.detach().reshape(-1)[:MOST_ELEMENTS] if plain and value.dim() > 0 else None
    if type(value) in (list, tuple):
        entries = value[:MOST_ENTRIES]
        return _of_text("\n".join(map(repr, entries))) if all(map(_is_plain, entries)) and entries else None
    return _of_array(value)


def _of_array(value: Any) -> torch.Tensor | None:
    """Of an array of numbers of numpy's, which need not be installed."""
    if type(value).__module__ != "numpy" or getattr(value, "ndim", 0) < 1:
        return None
    try:
        return torch.from_numpy(value.reshape(-1)[:MOST_ELEMENTS].copy()).view(torch.uint8)
    except (TypeError, RuntimeError):
        return None


def _is_plain(entry: Any) -> bool:
    if isinstance(entry, tuple):
        return all(map(_is_plain, entry))
    return isinstance(entry, (bool, int, float, str, bytes))


def _of_text(text: str) -> torch.Tensor:
    return torch.tensor(list(text.encode("utf-8", "surrogatepass")) or [0], dtype=torch.uint8)
