"""Digests of tensors that have no memory of their own."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from lockstep._core import Pen
from lockstep.enums import DType
from lockstep.torch.recorder import DTYPES

if TYPE_CHECKING:
    from pathlib import Path


class Wrapper(torch.Tensor):
    """A tensor whose values are elsewhere, as a DTensor's are."""

    @staticmethod
    def __new__(cls, n: int) -> Wrapper:
        return torch.Tensor._make_wrapper_subclass(cls, (n,), dtype=torch.float32)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(f"{func} of a tensor without values")


def pen_in(folder: Path) -> Pen:
    dtypes: list[Any] = [None] * len(DType)
    for theirs, ours in DTYPES.items():
        dtypes[ours] = theirs
    return Pen(str(folder), "r", 0, 0, 1, "gloo", "job", "torch", "", dtypes, True, "")


def test_a_tensor_with_a_local_part_has_the_digest_of_that_part(tmp_path: Path) -> None:
    pen, whole = pen_in(tmp_path), Wrapper(1000)
    whole._local_tensor = torch.arange(8.0)
    assert pen.digest(whole) == pen.digest(torch.arange(8.0))


def test_a_tensor_without_values_is_not_read(tmp_path: Path) -> None:
    pen = pen_in(tmp_path)
    assert pen.digest(Wrapper(1000)) == pen.digest(Wrapper(100_000_000)) == pen.digest(torch.empty(0))


def test_a_tensor_that_is_its_own_local_part_has_no_values(tmp_path: Path) -> None:
    pen, whole = pen_in(tmp_path), Wrapper(1000)
    whole._local_tensor = whole
    assert pen.digest(whole) == pen.digest(torch.empty(0))


def test_an_error_in_the_search_for_a_local_part_is_not_swallowed(tmp_path: Path) -> None:
    class Broken(Wrapper):
        @property
        def _local_tensor(self) -> torch.Tensor:
            raise ConnectionError("the part is on another machine")

    with pytest.raises(ConnectionError, match="on another machine"):
        pen_in(tmp_path).digest(Broken(1000))
