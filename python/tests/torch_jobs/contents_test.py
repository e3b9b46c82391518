"""What a data set holds: equal for equal sets, and of others different or unknown."""
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from lockstep.torch.contents import contents_of, entries_of
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

if TYPE_CHECKING:
    from collections.abc import Callable


class Listed(Dataset):  # type: ignore[type-arg]
    """A data set with what it is given, of which `rows` has one entry per sample."""

    def __init__(self, rows: Any, **more: Any) -> None:
        self.rows = rows
        self.__dict__.update(more)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        raise AssertionError("a sample was read")


def alike(a: Any, b: Any) -> bool:
    """Whether both show what they hold, and that it is the same."""
    of_a, of_b = contents_of(a), contents_of(b)
    return bool(of_a) and len(of_a) == len(of_b) and all(map(torch.equal, of_a, of_b))


SETS: dict[str, Callable[[int], Any]] = {
    "tensors": lambda n: TensorDataset(torch.arange(8.0), torch.full((8,), float(n))),
    "an array": lambda n: Listed(np.array([1.0, 2.0, 3.0 + n])),
    "numbers": lambda n: Listed([1, 2, 3 + n]),
    "files and classes": lambda n: Listed([("a.png", 0), ("b.png", n)]),
    "a list and a word": lambda n: Listed(["a", "b"], root=f"/data/{n}"),
    "a list and a number": lambda n: Listed(["a", "b"], offset=n),
    "a list and a tensor of another size": lambda n: Listed(["a", "b"], mean=torch.tensor([1.0 + n, 2.0, 3.0])),
    "sets in a row": lambda n: ConcatDataset([Listed([1, 2]), Listed([3, 4 + n])]),
}


@pytest.mark.parametrize("make", SETS.values(), ids=SETS.keys())
def test_equal_sets_are_alike_and_others_are_not(make: Callable[[int], Any]) -> None:
    assert alike(make(0), make(0))
    assert not alike(make(0), make(1))


def test_a_part_of_a_set_holds_what_the_whole_does() -> None:
    whole = Listed([1, 2, 3])
    assert alike(Subset(Subset(whole, [0, 2]), [1]), whole)


class Computed(Dataset):  # type: ignore[type-arg]
    """Nothing that it has shows what its samples are: each may be of the rank's own."""

    def __init__(self) -> None:
        self.n, self.files = 4, ["a", "b", "c", "d", "e", "f", "g", "h"]

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        raise AssertionError("a sample was read")


@pytest.mark.parametrize("data", [
    Computed(), Listed([object(), object()]), Listed(np.array([None, None])), Listed({"a": 1, "b": 2}), range(4),
    ConcatDataset([Listed([1, 2]), Computed()]), Listed([]),
], ids=["fewer than files", "objects", "an array of objects", "a dictionary", "a range", "one of two", "nothing"])
def test_what_does_not_show_is_unknown(data: Any) -> None:
    assert contents_of(data) == []


def same_samples(a: Any, b: Any) -> bool:
    of_a, of_b = entries_of(a), entries_of(b)
    assert of_a is not None and of_b is not None
    return torch.equal(of_a.numbers.sort().values, of_b.numbers.sort().values)


def same_order(a: Any, b: Any) -> bool:
    of_a, of_b = entries_of(a), entries_of(b)
    assert of_a is not None and of_b is not None
    return torch.equal(of_a.numbers, of_b.numbers)


LABELS = torch.tensor([0, 1, 2, 0, 1, 2, 2, 1, 0, 0])
ROWS = torch.arange(30.0).reshape(10, 3)
ORDER = torch.tensor([3, 1, 4, 0, 5, 9, 2, 6, 8, 7])
SHUFFLED: dict[str, Callable[[torch.Tensor], Any]] = {
    "tensors": lambda order: TensorDataset(ROWS[order], order % 3),
    "integers": lambda order: TensorDataset(order),
    "halves": lambda order: TensorDataset(ROWS[order].half()),
    "an array": lambda order: Listed(ROWS.numpy()[order.numpy()]),
    "files": lambda order: Listed([f"{i}.png" for i in order.tolist()], transform=object()),
    "files and classes": lambda order: Listed([(f"{i}.png", i % 2) for i in order.tolist()]),
    "paths": lambda order: Listed([Path(f"{i}.png") for i in order.tolist()]),
    "a part of a set": lambda order: Subset(TensorDataset(ROWS[order]), [1, 2]),
    "sets in a row": lambda order: ConcatDataset([TensorDataset(ROWS), TensorDataset(ROWS[order])]),
}


@pytest.mark.parametrize("make", SHUFFLED.values(), ids=SHUFFLED.keys())
def test_the_same_samples_in_another_order_are_the_same_samples(make: Callable[[torch.Tensor], Any]) -> None:
    plain = torch.arange(10)
    assert same_order(make(plain), make(plain))
    assert same_samples(make(plain), make(ORDER))
    assert not same_order(make(plain), make(ORDER))


@pytest.mark.parametrize("as_path", [str, Path])
def test_a_copy_of_the_files_in_another_folder_holds_the_same_samples(as_path: Callable[[str], Any]) -> None:
    names = ["cat/1.png", "cat/2.png", "dog/1.png"]

    def held(folder: str, names: list[str]) -> torch.Tensor:
        found = entries_of(Listed([as_path(folder + name) for name in names]))
        assert found is not None
        return found.numbers

    assert torch.equal(held("/data/0/", names), held("/data/1/", names))
    assert torch.equal(held("0/", names), held("", names))
    assert len(set(held("0/", names).tolist())) == 3
    assert not torch.equal(held("0/", names), held("0/", ["cat/1.png", "cat/2.png", "dog/2.png"]))
    assert not torch.equal(held("0/", ["a-1", "a-3"]), held("0/", ["a-2", "a-4"]))  # No part of a name is left out.


def test_samples_are_told_apart_by_all_that_they_have() -> None:
    labels = torch.zeros(10)
    labels[4] = 1.0
    assert not same_samples(TensorDataset(ROWS, torch.zeros(10)), TensorDataset(ROWS, labels))
    # Each attribute is one of both sets, but not with the same partners.
    assert not same_samples(TensorDataset(ROWS, labels), TensorDataset(ROWS, labels.flip(0)))
    last = ROWS.clone()
    last[9, 2] += 1
    assert not same_samples(TensorDataset(ROWS), TensorDataset(last))


@pytest.mark.parametrize("data", [
    Computed(), Listed([object(), object()]), Listed(np.array([None, None])), range(4), Listed([1]),
    ConcatDataset([Listed([1, 2]), Computed()]), TensorDataset(torch.empty(3, 0)), TensorDataset(LABELS),
    TensorDataset(LABELS, LABELS / 3), Listed(torch.empty(1, 1).expand(4, 1 << 31)),
], ids=["fewer than files", "objects", "an array of objects", "a range", "one sample", "one of two", "no values", "labels",
        "labels and weights", "more than four gigabytes"])
def test_samples_that_do_not_show_are_unknown(data: Any) -> None:
    assert entries_of(data) is None


def same_but_classes(a: Any, b: Any) -> bool:
    of_a, of_b = entries_of(a), entries_of(b)
    assert of_a is not None and of_b is not None
    return len(of_a.classes) > 0 and torch.equal(of_a.classes, of_b.classes)


SWAPPED = torch.tensor([2, 0, 1])[LABELS]
CLASSED: dict[str, Callable[[torch.Tensor], Any]] = {
    "tensors": lambda labels: TensorDataset(ROWS, labels),
    "small integers": lambda labels: TensorDataset(ROWS, labels.to(torch.uint8)),
    "lists": lambda labels: Listed([f"{i}.png" for i in range(10)], targets=labels.tolist()),
    "a tuple": lambda labels: Listed(ROWS.numpy(), targets=tuple(labels.tolist())),
    "arrays": lambda labels: Listed(ROWS.numpy(), targets=labels.numpy()),
    "files and classes": lambda labels: Listed([(f"{i}.png", n) for i, n in enumerate(labels.tolist())]),
    "both ways": lambda labels: Listed([(f"{i}.png", n) for i, n in enumerate(labels.tolist())], targets=labels.tolist()),
    "sets in a row": lambda labels: ConcatDataset([TensorDataset(ROWS, LABELS), TensorDataset(ROWS, labels)]),
}


@pytest.mark.parametrize("make", CLASSED.values(), ids=CLASSED.keys())
def test_classes_in_another_order_are_told_from_other_samples(make: Callable[[torch.Tensor], Any]) -> None:
    assert same_but_classes(make(LABELS), make(SWAPPED))
    assert not same_samples(make(LABELS), make(SWAPPED))
    # One sample is of another class; the classes are others; two classes became one.
    wrong = LABELS.clone()
    wrong[3] = 1
    for other in (wrong, LABELS + 1, LABELS.clamp(max=1)):
        assert not same_but_classes(make(LABELS), make(other))


def test_other_samples_with_classes_are_other_samples() -> None:
    assert not same_but_classes(TensorDataset(ROWS, LABELS), TensorDataset(ROWS + 1, SWAPPED))
    assert not same_but_classes(TensorDataset(ROWS, LABELS), TensorDataset(ROWS[ORDER], SWAPPED))


@pytest.mark.parametrize("data", [
    TensorDataset(ROWS, torch.arange(10)), TensorDataset(ROWS, LABELS.float()),
    TensorDataset(ROWS, LABELS.reshape(10, 1)), Listed([(f"{i}.png", str(i % 3)) for i in range(10)]),
], ids=["numbers of samples", "values", "rows", "words"])
def test_values_that_are_not_classes_of_samples_are_not_classes(data: Any) -> None:
    found = entries_of(data)
    assert found is not None and len(found.classes) == 0


def test_an_array_in_a_file_is_not_read(tmp_path: Path) -> None:
    in_file = np.memmap(tmp_path / "rows", dtype=np.float32, mode="w+", shape=(10, 3))
    in_file[:] = ROWS.numpy()
    assert entries_of(Listed(in_file)) is None
    assert entries_of(Listed(np.array(in_file))) is not None
