"""What a data set holds, as tensors whose digest is equal where two ranks have the same set. No sample is read: that
may draw random numbers."""
from __future__ import annotations

import os
import zlib
from pathlib import PurePath
from typing import Any, NamedTuple

import torch
from torch.utils.data import ConcatDataset, Subset

from lockstep.torch.data_read import MOST_ELEMENTS
from lockstep.torch.recorder import DTYPES

MOST_ENTRIES = 4096  # Of a list.
MOST_CHARACTERS = 1 << 16  # Of a word.
MOST_SAMPLES = 1 << 20  # Of a data set whose samples are distinguished.
MOST_VALUES = 16  # Of each sample.
MOST_BYTES = 1 << 32  # Of a tensor: it may lie in a file, and a page is read for each sample.


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
    return isinstance(entry, (bool, int, float, str, bytes, PurePath))


def _of_text(text: str) -> torch.Tensor:
    return torch.tensor(list(text.encode("utf-8", "surrogatepass")) or [0], dtype=torch.uint8)


class Entries(NamedTuple):
    """A number for each sample of a data set, the same where two ranks have the same sample."""

    numbers: torch.Tensor
    classes: torch.Tensor  # The same, with classes numbered as they come; empty without classes of known samples.


def entries_of(data: Any) -> Entries | None:
    """As far as attributes with an entry per sample show it: file names, numbers, the first values of tensors. None
    where most samples do not show: labels alone, or files that are read as they are needed."""
    while isinstance(data, Subset):
        data = data.dataset
    if isinstance(data, ConcatDataset):
        known = [part for part in map(entries_of, data.datasets) if part is not None]
        return Entries(torch.cat([one.numbers for one in known]), torch.cat([one.classes for one in known])) \
            if known and len(known) == len(data.datasets) else None
    try:
        size, attributes = len(data), vars(data)
    except TypeError:
        return None
    if not 1 < size <= MOST_SAMPLES:
        return None
    samples, labels = _parts_of([attributes[name] for name in sorted(attributes)], size)
    if not samples or len(_together(samples).unique()) <= size // 2:
        return None
    numbers = _together([*samples, *labels])
    classes = [part for label in labels for part in _as_they_come(label)]
    return Entries(numbers, torch.cat([_together(samples), *classes]) if classes else numbers[:0])


def _parts_of(values: list[Any], size: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """A number per sample for each attribute that has one: what samples are, and of which class."""
    samples: list[torch.Tensor] = []
    labels: list[torch.Tensor] = []
    for value in values:
        for one in value if type(value) is tuple and _are_tensors(value) else (value,):
            pairs = type(one) is list and len(one) == size and all(map(_is_pair, one))
            for part in ([first for first, _ in one], [label for _, label in one]) if pairs else (one,):
                numbers = _numbers_of(part, size)
                if numbers is not None:
                    (labels if _has_classes(part, numbers) else samples).append(numbers)
    return samples, labels


def _is_pair(entry: Any) -> bool:
    """A sample and its class, as folders of images are listed."""
    return type(entry) is tuple and len(entry) == 2 and type(entry[1]) is int


def _has_classes(value: Any, numbers: torch.Tensor) -> bool:
    """Whether it has few different integers, one per sample."""
    whole = all(type(one) is int for one in value) if type(value) in (list, tuple) else \
        value.ndim == 1 and str(value.dtype).replace("torch.", "") in ("int64", "int32", "int16", "int8", "uint8")
    return whole and len(numbers.unique()) <= len(numbers) // 2


def _as_they_come(labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Which classes there are, and each sample's, numbered in the order in which they come."""
    known, which = labels.unique(return_inverse=True)
    firsts = torch.full((len(known),), len(labels)).scatter_reduce(0, which, torch.arange(len(labels)), "amin")
    return known, firsts.argsort().argsort()[which]


def _together(parts: list[torch.Tensor]) -> torch.Tensor:
    numbers = parts[0]
    for part in parts[1:]:
        numbers = _mixed(numbers * 31 + part)
    return numbers


def _numbers_of(value: Any, size: int) -> torch.Tensor | None:
    if type(value) in (list, tuple) and len(value) == size and all(map(_is_plain, value)):
        return torch.tensor([zlib.crc32(name.encode("utf-8", "surrogatepass")) for name in _names_of(value)])
    in_memory = f"{type(value).__module__}.{type(value).__name__}" == "numpy.ndarray"  # Not in a file, as numpy.memmap.
    if in_memory and value.ndim > 0 and len(value) == size:
        try:
            value = torch.from_numpy(value.reshape(size, -1)[:, :MOST_VALUES].copy())
        except (TypeError, RuntimeError):
            return None
    plain = type(value) is torch.Tensor and value.device.type == "cpu" and value.layout == torch.strided
    if not plain or value.dim() == 0 or len(value) != size or value.numel() == 0 or value.is_complex():
        return None
    if value.numel() * value.element_size() > MOST_BYTES:
        return None
    words = value.detach().reshape(size, -1)[:, :MOST_VALUES].double().contiguous().view(torch.int64)
    numbers = torch.zeros(size, dtype=torch.int64)
    for column in words.unbind(1):
        numbers = _mixed(numbers * 31 + column)
    return numbers


def _names_of(entries: list[Any] | tuple[Any, ...]) -> list[str]:
    """Of files: below the folder that they have in common, since each rank may have a copy in a folder of its own."""
    if not all(isinstance(entry, (str, PurePath)) for entry in entries):
        return [repr(entry) for entry in entries]
    names = [str(entry) for entry in entries]
    start = os.path.commonprefix(names).rfind("/") + 1
    return [name[start:] for name in names]


def _mixed(numbers: torch.Tensor) -> torch.Tensor:
    """Different numbers for different ones, spread over all bits. Sums and products wrap around."""
    numbers = (numbers ^ (numbers >> 30)) * -0x40A7B892E31B1A47
    return numbers ^ (numbers >> 27)
