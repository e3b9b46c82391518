"""The recorder for PyTorch jobs. Each seam to PyTorch is one file, and asks what this PyTorch has,
never which version it is:

    groups.py  process groups and their collectives
    wrapping.py  DistributedDataParallel: construction, buckets, communication hooks, forwards
    model_description.py  the classes and options of a model's modules
    shared_parameters.py  parameters of several wrapped models
    buffers.py  the buffers of a wrapped model
    replaced_buffers.py  buffers of this rank that rank 0's replace
    gradients.py  backwards: gradients
    losses.py  what a backward starts from
    exchanges.py  collectives inside a loss
    plain_rows.py  rows that a gather returned, in a loss
    in_flight.py  tensors that a call of the program's own still owns
    averaging.py  gradients that the program reduces by itself
    averaged_models.py  averages of a model's parameters that ranks evaluate
    frozen_modules.py  modules beside the wrapped model that nothing trains
    joining.py  ranks whose inputs are used up, under join
    companions.py  other models like the one that is trained: teachers, target networks
    stepping.py  optimizers and the gradient scaler
    schedules.py  how many steps a schedule of the learning rate was planned for
    clipping.py  gradients that are clipped
    delayed_reduction.py  the reduction that a static graph puts off
    batches.py  DistributedSampler and loaders
    samplers.py  samplers of other classes that something divides among the ranks, ...
    own_orders.py  ... and those of the program's own that have an epoch
    data_sets.py  which data set a sample belongs to
    data_read.py  the values of batches that nothing divides among the ranks
    input_rows.py  rows that forwards are given
    stream_epochs.py  streams whose epoch does not reach the workers
    kept_batches.py  batches that are trained on again
    numberings.py  tables by which the program numbers words, ...
    variables.py  ... and where it may hold them
    trainings.py  which training a wrapper belongs to
    sharded.py  models that fully_shard divides
    fsdp_parts.py  a rank's parts of them
    shard_factors.py  a rank's shard of gradients, where the program divides the optimizer by itself
    streams.py  random numbers that dropout and data sets draw
    buckets.py  buckets that are made anew
    files.py  torch.save and torch.load
    opened_files.py  files that the program opens by itself
    loading.py  states of which a model has not one name
    wrapped_again.py  models that hold a wrapper
    ending.py  how the process ends: exceptions, signals, waiting forever
"""
from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from lockstep.exception_text import line_of
from lockstep.torch import ending, groups
from lockstep.torch.patches import Patches
from lockstep.torch.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike
    from types import ModuleType

    from lockstep.torch.annotations import AnnotationWriter

_active: list[Recorder] = []


def start(folder: str, budget: float = 0.0) -> Recorder:
    """Starts recording in this process. Its file begins when it joins a process group.

    Raises:
        RuntimeError: this process is being recorded already.
    """
    if _active:
        raise RuntimeError(f"this process is being recorded already, into {_active[0].folder}")
    recorder = Recorder(folder, Patches(), budget)
    _active.append(recorder)
    groups.install(recorder, on_first_group=lambda: _install_the_rest(recorder))
    return recorder


def stop(recorder: Recorder) -> None:
    """Undoes what start() patched and closes the file."""
    recorder.patches.undo()
    ending.finish(recorder)
    _active.remove(recorder)


def active_annotations() -> AnnotationWriter | None:
    """Where the words of a program go, once there is a trace."""
    return _active[0].annotations if _active and _active[0].pen is not None else None


@contextmanager
def recording(folder: str | PathLike[str], budget: float = 0.0) -> Iterator[None]:
    """See lockstep.record."""
    recorder = start(str(folder), budget)
    try:
        yield
    except BaseException as error:
        recorder.exception = line_of(error)
        raise
    finally:
        stop(recorder)


def import_seams() -> tuple[ModuleType, ...]:
    """The seams that are put in once there is a group: by now PyTorch has been imported as a whole, while start() may have
    been called in the middle of that."""
    from lockstep.torch import (
        averaged_models,
        averaging,
        batches,
        buckets,
        clipping,
        companions,
        delayed_reduction,
        exchanges,
        files,
        frozen_modules,
        gradients,
        in_flight,
        joining,
        kept_batches,
        loading,
        numberings,
        opened_files,
        samplers,
        schedules,
        shard_factors,
        sharded,
        stepping,
        streams,
        wrapping,
    )

    return (wrapping, exchanges, in_flight, averaging, averaged_models, buckets, gradients, delayed_reduction, stepping, schedules, sharded, shard_factors, clipping,
            companions, frozen_modules, joining, streams, batches, kept_batches, samplers, numberings, files, opened_files, loading, ending)


def _install_the_rest(recorder: Recorder) -> None:
    for seam in import_seams():
        recorder.quietly(seam.__name__, partial(seam.install, recorder))
    recorder.before_end.append(recorder.annotations.write_end)
