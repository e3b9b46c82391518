"""What is kept of the batches that are read before it is known what is trained."""
from __future__ import annotations

from lockstep.torch.data_read import Handed
from lockstep.torch.first_batches import MOST, FirstBatches

PASS, SHARE = object(), object()


def ids(first: FirstBatches) -> list[list[int] | None]:
    return [handed.ids for _, _, handed in first.take() or ()]


def test_the_batches_of_the_last_pass_are_kept_in_order_without_their_values() -> None:
    first = FirstBatches()
    first.keep(PASS, SHARE, Handed([9], "loader", "values"))
    first.keep(object(), SHARE, Handed([1], "loader", "values"))
    last = object()
    first.keep(last, SHARE, Handed([2], "loader", "values"))
    first.keep(last, SHARE, Handed([3], "", None))
    assert first.take() == [(last, SHARE, Handed([2], "", None)), (last, SHARE, Handed([3], "", None))]
    assert first.take() == []


def test_batches_of_another_loader_are_those_of_another_pass() -> None:
    first = FirstBatches()
    first.keep(None, SHARE, Handed([1], "", None))
    first.keep(None, object(), Handed([2], "", None))
    assert ids(first) == [[2]]


def test_batches_of_a_pass_that_is_too_long_are_unknown() -> None:
    first = FirstBatches()
    for number in range(MOST):
        first.keep(PASS, SHARE, Handed([number], "", None))
    assert ids(first) == [[number] for number in range(MOST)]
    for number in range(MOST + 1):
        first.keep(PASS, SHARE, Handed([number], "", None))
    assert first.take() is None
    first.keep(PASS, SHARE, Handed([1], "", None))
    assert first.take() is None


def test_a_pass_after_one_that_was_too_long_is_known() -> None:
    first = FirstBatches()
    for number in range(MOST + 1):
        first.keep(PASS, SHARE, Handed([number], "", None))
    assert first.take() is None
    first.keep(object(), SHARE, Handed([1], "", None))
    assert ids(first) == [[1]]
