"""Lockstep for PyTorch: record a data-parallel job without editing it, then judge what its ranks did.

    $ lockstep record -- torchrun --nproc-per-node 2 train.py
    $ lockstep check lockstep-trace

or from Python:

    import lockstep
    with lockstep.record("trace"):
        train()
    lockstep.check("trace").raise_for_findings()

or search a scenario for a schedule that fails, on every core or on a cluster:

    lockstep.explore("job.toml", runs=10_000, executor=ProcessPoolExecutor()).raise_for_failure()

PyTorch is needed for recording alone, and is imported only then.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep._core import sm64
from lockstep.annotations import Annotations
from lockstep.exploring import Exploration, ExploredFailure, SearchFailed, explore
from lockstep.report import BrokenLaws, Finding, LawResult, Report, check

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from os import PathLike

__version__ = "0.1.0"
__all__ = ["BrokenLaws", "Exploration", "ExploredFailure", "Finding", "LawResult", "Annotations", "Report",
           "SearchFailed", "__version__", "check", "explore", "annotate", "record", "sm64"]


def annotate() -> Annotations:
    """Words for what only your program knows, such as what a batch counts or what must stay equal.

    They do nothing where nothing is recorded, and need no PyTorch: leave them in.

        say = lockstep.annotate()
        say.decision("stop", patience == 0)
    """
    return Annotations()


def record(folder: str | PathLike[str], *, budget: float = 0.0) -> AbstractContextManager[None]:
    """Records what this rank does between entering and leaving into `folder`, one file per rank.

    Enter it before the model is wrapped in DistributedDataParallel; what was wrapped earlier is not
    seen. Every rank of the job does the same, with the same folder. Nothing is recorded in a process
    that never joins a process group.

    The recorder raises nothing into training: what it cannot record it notes in the trace. It issues
    no collective and changes no value.

    Args:
        budget: the share of the job's time that recording may take, such as 0.05: gradients and
            states are then looked at in every k-th step only. 0 = look at everything.

    Raises:
        RuntimeError: this process is being recorded already.
        ValueError: the budget is not a share.
    """
    if not 0.0 <= budget < 1.0:
        raise ValueError(f"budget={budget}: must be a share of the time, such as 0.05, or 0")
    from lockstep.torch import recording

    return recording(folder, budget)
