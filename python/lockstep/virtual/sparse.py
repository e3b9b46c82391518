"""The sum of sparse tensors: ranks have different numbers of elements, which are gathered and added."""
from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from lockstep.enums import CollectiveOp

if TYPE_CHECKING:
    from lockstep.virtual.process_group import VirtualGroup


def all_reduce(group: VirtualGroup, tensor: torch.Tensor) -> None:
    """Waits: a sparse sum is several calls, the later of which depend on the first."""
    with torch.no_grad():
        mine = tensor.detach().coalesce()
        counts = _gather(group, torch.tensor([mine._nnz()]), [1] * group.size())
        sizes = [int(count) for count in counts]
        places = _gather(group, mine.indices().t().contiguous(), sizes)
        values = _gather(group, mine.values().contiguous(), sizes)
        total = torch.sparse_coo_tensor(torch.cat(places).t(), torch.cat(values), mine.shape,
                                        dtype=mine.dtype)
        tensor.copy_(total.coalesce())


def _gather(group: VirtualGroup, mine: torch.Tensor, sizes: list[int]) -> list[torch.Tensor]:
    from lockstep.virtual.process_group import Asked

    rows = [mine.new_empty((size, *mine.shape[1:])) for size in sizes]
    group.post(Asked(CollectiveOp.ALL_GATHER, "ALLGATHER", [mine], rows, rows, is_async=False)).wait()
    return rows
