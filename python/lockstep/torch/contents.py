"""What a data set holds, as tensors whose digest is equal where two ranks have the same set. No sample is read: that
may draw random numbers."""
from __future__ import annotations

import zlib
from typing import Any

import torch
from torch.utils.data import ConcatDataset, Subset

from lockstep.torch.data_read import MOST_ELEMENTS
from lockstep.torch.recorder import DTYPES

MOST_ENTRIES = 4096  # Of a list.
MOST_CHARACTERS = 1 << 16  # Of a word.
MOST_SAMPLES = 1 << 20  # Of a data set whose samples are told apart.
MOST_VALUES = 16  # Of each sample.


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


def entries_of(data: Any) -> torch.Tensor | None:
    """A number for each sample of a data set, the same where two ranks have the same sample, as far as attributes with
    an entry per sample show it: file names, numbers, the first values of tensors. None where none does."""
    while isinstance(data, Subset):
        data = data.dataset
    if isinstance(data, ConcatDataset):
        parts = [entries_of(part) for part in data.datasets]
        known = [part for part in parts if part is not None]
        return torch.cat(known) if known and len(known) == len(parts) else None
    try:
        size, attributes = len(data), vars(data)
    except TypeError:
        return None
    if not 1 < size <= MOST_SAMPLES:
        return None
    numbers: torch.Tensor | None = None
    for name in sorted(attributes):
        value = attributes[name]
        for one in value if type(value) is tuple and _are_tensors(value) else (value,):
            own = _numbers_of(one, size)
            if own is not None:
                numbers = own if numbers is None else _mixed(numbers * 31 + own)
    return numbers


def _numbers_of(value: Any, size: int) -> torch.Tensor | None:
    if type(value) in (list, tuple) and len(value) == size and all(map(_is_plain, value)):
        return torch.tensor([zlib.crc32(repr(entry).encode("utf-8", "surrogatepass")) for entry in value])
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 0) > 0 and len(value) == size:
        try:
            value = torch.from_numpy(value.reshape(size, -1)[:, :MOST_VALUES].copy())
        except (TypeError, RuntimeError):
            return None
    plain = type(value) is torch.Tensor and value.device.type == "cpu" and value.layout == torch.strided
    if not plain or value.dim() == 0 or len(value) != size or value.numel() == 0 or value.is_complex():
        return None
    words = value.detach().reshape(size, -1)[:, :MOST_VALUES].double().contiguous().view(torch.int64)
    numbers = torch.zeros(size, dtype=torch.int64)
    for column in words.unbind(1):
        numbers = _mixed(numbers * 31 + column)
    return numbers


def _mixed(numbers: torch.Tensor) -> torch.Tensor:
    """Different numbers for different ones, spread over all bits. Sums and products wrap around."""
    numbers = (numbers ^ (numbers >> 30)) * -0x40A7B892E31B1A47
    return numbers ^ (numbers >> 27)
