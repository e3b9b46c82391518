"""The seam to data: which samples each rank consumes, and in which order samplers gave them out.

Class patches: DistributedSampler.__iter__ and the loaders' iterators. A loader asks its sampler ahead
of time; samples count when the batch is handed to the loop, and are recorded by the forward that
follows. What becomes of a batch decides whether it is trained on: a forward that does not train is an
evaluation once the loop asks for the next batch, and no forward that trains has had this one. Loaders
over iterable data sets have no indices: of these, and of others that nothing divides among the ranks,
the values of the first batches are looked at.
"""
from __future__ import annotations

import weakref
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.data import dataloader
from torch.utils.data.distributed import DistributedSampler

from lockstep.enums import DataPart
from lockstep.torch.contents import contents_of, entries_of
from lockstep.torch.data_read import Handed, consumed_whole, most_batches, pass_source, source_of, values_of
from lockstep.torch.data_sets import TRAIN, DataSets, place_of
from lockstep.torch.first_batches import FirstBatches
from lockstep.torch.kept_batches import KeptBatches
from lockstep.torch.samplers import held_by
from lockstep.torch.stream_epochs import epochs_of
from lockstep.torch.streams import LOADER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lockstep.torch.recorder import Place, Recorder
    from lockstep.torch.stream_epochs import StreamEpochs, StreamPass
    from lockstep.torch.streams import Draw
    from lockstep.torch.wrapping import Wrapper

SEAM = "batches"
Passed = tuple[str, list[Any], "_Share | None"]
"""The split of a batch that was passed by, and its ids; with a share: its indices in that share's data set."""
_PASS = "_lockstep_pass"  # On an iterator: its pass, ...
_SHARE = "_lockstep_share"  # ... what its batches are counted to, ...
_ASKED = "_lockstep_asked"  # ... the indices of those that it has not handed out ...
_BEGUN = "_lockstep_begun"  # ... and whether it has handed out one of this pass.


class _Pass:
    """A pass over a sampler, from its first draw on. Keeps no iterator alive: that would keep its workers."""

    def __init__(self, write: Callable[[str], None], n_replicas: int) -> None:
        self.write = write  # Its event, given the name of its split.
        self.n_replicas = n_replicas  # Among which the sampler divides it.
        self.written = False
        self.split = ""  # Of its batches, in ...
        self.training = -2  # ... this training; -1 = in evaluations, -2 = not known.


class _Evaluated(NamedTuple):
    """The first forward of a batch, which did not train."""

    wrapper: Wrapper
    sync: int
    micro: int
    opt: int
    epoch: int


class _Share:
    """An iterator's data set, and what its batches were counted to by the last forward that consumed one."""

    def __init__(self, data: Callable[[], Any], is_left: Callable[[], bool]) -> None:
        self.data = data
        self.is_left = is_left  # The loop over it: it is gone. What was evaluated in there is trained on no more.
        self.source = ""  # What it draws from, as in data events: known while batches are looked at.
        self.most = 0  # Batches that are.
        self.epochs: StreamEpochs | None = None
        self.pass_source = ""  # The same of a pass that is about to begin; empty: it has, or does not matter.
        self.split = ""
        self.training = -2  # -1 = evaluations, -2 = nothing yet.
        self.begun: _Pass | None = None  # The pass that its last batch was of.
        self.trained_in = -2  # The last training that this pass over it was part of.
        self.first: int | None = None  # The number of its set's first sample; None: samples are looked up.
        self.alike_in = -2  # The training in which only the samples of its next batch matter.

    def ids_of(self, index: list[Any]) -> list[int]:
        """The numbers of a batch's samples, where `first` is known."""
        first = self.first or 0
        return [first + int(one) for one in index]


class Batches:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.handed: Handed | None = None  # The batch that no forward has seen yet, ...
        self.passing: tuple[_Share, list[Any]] | None = None  # ... or all that matters of it, ...
        self._from: _Pass | None = None  # ... the pass that it is of, if that is known ...
        self._share = _Share(lambda: None, lambda: False)  # ... what it is counted to ...
        self.evaluated: _Evaluated | None = None  # ... and the forward that has evaluated it, for all that is known yet.
        self.n_looked_at = 0  # Batches of which the values were.
        self.inputs: Any = None  # Of the forward that begins.
        self.asking: Any = None  # The iterator that asks its sampler now.
        self.data_sets = DataSets()
        self._begun: _Pass | None = None  # A pass that no loader has asked for.
        self.drawn: list[Draw] = []  # Streams that a batch drew from first.
        self._size: tuple[int, int] | None = None  # Wrapper and samples of the last forward.
        self._split = ""  # Of the last batch.
        self._first = FirstBatches()
        self.kept = KeptBatches()
        self.shuffles = False  # A sampler that divides the data of a training does.
        self._followed: set[int] = set()  # Wrappers that stand for loops, which weigh their batches by themselves.

    @contextmanager
    def asked_by(self, iterator: Any) -> Iterator[None]:
        """A pass that a sampler begins in here is this iterator's."""
        before, self.asking = self.asking, iterator
        try:
            yield
        finally:
            self.asking = before

    def hand(self, iterator: Any, index: Any, data: Any) -> None:
        """A loader gives its next batch to the loop; `index` None: of a stream."""
        self.handed = self.passing = None
        known, data_set = iterator.__dict__, iterator._dataset
        self._from = known.get(_PASS)
        share = known.get(_SHARE)
        if share is None:
            share = known[_SHARE] = _Share(place_of(data_set), _is_gone(iterator))
            share.source, share.most = source_of(iterator), most_batches(iterator)
            share.epochs = epochs_of(iterator)
        self._share = share
        if _BEGUN not in known:
            known[_BEGUN] = True
            share.pass_source = pass_source(iterator, share.source)
            share.trained_in = -2
            if share.epochs is not None and not self.recorder.annotations.gives_epochs:
                known[_PASS] = self._from = self._pass_of(share.epochs.begins(data_set, data))
        if share.epochs is not None:
            share.epochs.has_read(data)
        share.begun, share.alike_in = self._from, -2
        ids = None if index is None else self.data_sets.ids_of(data_set, _ids_of(index))
        source = share.source if self.n_looked_at < share.most else ""
        self.handed = Handed(ids, source, data if source or share.pass_source else None)
        ours = type(index) is list and not source and LOADER not in known
        share.first = self.data_sets.first_of(data_set) if ours else None
        if self._is_outside():
            self._first.keep(self._from, share, self.handed)

    def _pass_of(self, stream: StreamPass) -> _Pass:
        return _Pass(lambda split: stream.write(self.recorder, split), 1)

    def follow(self, wrapper: Wrapper) -> bool:
        """A loop has shown by its first step what it trains: what it has read for that step is written. Returns: whether
        all of that is known."""
        read = self._first.take()
        self._followed.add(wrapper.index)
        for self._from, self._share, self.handed in read or ():
            self._begin(True)
            self.consumed(wrapper, True)
        return read is not None

    def _is_outside(self) -> bool:
        """No wrapper is there, or none any more: the program shares its work out in another way."""
        return all(wrapper.gone for wrapper in self.recorder.wrapping.all)

    def stepped(self, optimizer: Any) -> None:
        """An optimizer has. Where no wrapper is, what a sampler divides among all ranks is read like a wrapper's; of a
        loader's batches, those count that came last before the step. A pass is only known by then, too late for samples that
        the program has named by itself."""
        recorder = self.recorder
        if not self._is_outside():
            return
        drawn, self.drawn = self.drawn, []
        shares = [(begun, share, handed) for begun, share, handed in self._first.take() or ()
                  if begun is not None and begun.n_replicas == recorder.world > 1]
        if recorder.pen is None or recorder.annotations.gives_samples:
            return
        recorder.trainings.stepped_outside(optimizer, bool(shares) and not shares[0][0].written)
        if not shares:
            return
        for self._from, self._share, self.handed in shares:
            self._begin(True)
            handed, self.handed = self.handed, None
            if handed is not None and handed.ids is not None:
                recorder.pen.sample(recorder.outside.wrapper, self._split, handed.ids)
        for draw in drawn:
            recorder.streams.write(recorder.outside.wrapper, 0, draw)
        recorder.outside.opt += 1
        recorder.moved(recorder.outside)

    def hand_alike(self, share: _Share, index: list[Any]) -> None:
        """The same, of a batch whose samples are all that matters. They are numbered when they are written."""
        self.handed, self.passing = None, (share, index[:])  # A sampler may give the same list again.

    def _unpack(self) -> None:
        """Where more matters after all."""
        passing, self.passing = self.passing, None
        if passing is not None:
            self._share, index = passing
            self._from, self._share.alike_in = self._share.begun, -2
            self.handed = Handed(self._share.ids_of(index), "", None)

    def pass_began(self, write: Callable[[str], None], n_replicas: int) -> None:
        """A sampler that divides its draws among this many has been asked for the first. Loaders may be looked through, or
        begun and left: a pass counts, and is written, once a forward consumes something of it."""
        if self.asking is None:
            self.settle()
            self._begun = _Pass(write, n_replicas)
            return
        known = self.asking.__dict__
        known[_PASS] = _Pass(write, n_replicas)
        if _SHARE in known:
            known[_SHARE].alike_in = -2

    def begin_pass(self, training: bool) -> None:
        """A forward begins: what it consumes may be the first of a pass."""
        self._unpack()
        if not training:
            return
        if self.handed is not None and self._share.is_left():
            self.settle()
        self.evaluated = None
        self._begin(True)

    def settle(self) -> None:
        """No forward that trains has followed on one that evaluates. Of a pass that is trained on otherwise, a batch that
        the loop trains on no further belongs to that."""
        evaluated, self.evaluated = self.evaluated, None
        if evaluated is None:
            return
        now, pen, program = self.recorder.trainings.now, self.recorder.pen, self.recorder.annotations
        trains = self.handed is not None and self._share.trained_in == now
        self._begin(trains)
        handed, self.handed = self.handed, None
        self.drawn = []
        if pen is None or handed is None:
            return
        self._share.split, self._share.training = self._split, now if trains else -1
        if handed.ids is not None and not program.gives_samples:
            at = evaluated
            pen.sample_at(at.wrapper.index, at.sync, at.micro, at.opt, at.epoch, self._split, handed.ids)

    def settle_evaluation(self) -> None:
        """The program makes a call: where that brings together what an evaluation has found, the samples come before it."""
        if self.evaluated is not None and self.evaluated.wrapper.evaluates():
            self.settle()

    def _begin(self, training: bool) -> None:
        begun, self._begun = self._begun, None
        if self.handed is not None and self._from is not None:
            begun = self._from
        if self.handed is None and begun is None:
            return
        training_now = self.recorder.trainings.now if training else -1
        if begun is not None and begun.written and begun.training == training_now:
            self._split = begun.split
            return
        # One that was evaluated first, and is trained on now, is an epoch of both.
        first = begun is not None and (not begun.written or training and begun.training == -1)
        data = None if self.handed is None else self._share.data()
        if not training:
            self._split = self.data_sets.evaluated(data)
        else:
            recorder = self.recorder
            self._split = self.data_sets.split_of(data, recorder.trainings.now)
            if first and self._split == TRAIN:
                recorder.in_epoch(recorder.trainings.next_epoch())
        if begun is not None and first:
            begun.written = True
            begun.write(self._split)
        if begun is not None and data is not None:
            begun.split, begun.training = self._split, training_now

    def consumed(self, wrapper: Wrapper, training: bool) -> None:
        """A forward begins: it consumes the batch that was handed out last."""
        if not training:
            self._note_evaluation(wrapper, wrapper.place)
            return
        pen, handed, self.handed = self.recorder.pen, self.handed, None
        program, share = self.recorder.annotations, self._share
        self.kept.forward(self.inputs)
        if pen is None or handed is None:
            return
        share.split = self._split
        share.training = share.trained_in = self.recorder.trainings.now
        drawn, self.drawn = self.drawn, []
        for draw in drawn:
            self.recorder.streams.write(wrapper.index, wrapper.group, draw)
        self.write_size()
        if handed.values is not None:
            self._look_at(wrapper, handed)
        ids = handed.ids
        if ids is None:
            return
        if wrapper.looks and wrapper.index not in self._followed and not program.batch_given:
            self._size = (wrapper.index, len(ids))
        if not program.gives_samples:
            pen.sample(wrapper.index, self._split, ids)

    def _note_evaluation(self, wrapper: Wrapper, place: Place) -> None:
        if self.evaluated is None and (self.handed is not None or self._begun is not None):
            self.evaluated = _Evaluated(wrapper, place.sync, place.micro, place.opt, self.recorder.epoch)

    def _look_at(self, wrapper: Wrapper, handed: Handed) -> None:
        pen, share = self.recorder.pen, self._share
        if pen is None:
            return
        if handed.source:
            values = values_of(handed.values, self.inputs)
            if values:
                self.n_looked_at += 1
                pen.data(wrapper.index, DataPart.BATCH, self._split, handed.source, values)
            else:
                share.source = ""  # Its other batches have none, either.
        source, share.pass_source = share.pass_source, ""
        if not source or handed.ids is None or self.recorder.annotations.gives_samples:
            return
        if consumed_whole(handed.values, self.inputs):
            contents = contents_of(share.data())
            if contents:
                pen.data(wrapper.index, DataPart.SET, self._split, source, contents)

    def is_settled(self) -> bool:
        """Whether the batch that was handed out last is one more of a pass that is recorded, and nothing but
        its ids is to be."""
        if self._begun is not None or self.drawn or self._size is not None:
            return False
        handed, begun = self.handed, self._from
        if handed is None:
            return True
        known = begun is None or begun.written
        return known and self._share.training == self.recorder.trainings.now and handed.values is None

    def pass_by(self) -> Passed | None:
        """A forward of a window that is left out consumes that batch, of which is_settled() holds. Returns: what is to
        be written of it, if anything."""
        passing, handed, share = self.passing, self.handed, self._share
        self.handed = self.passing = None
        if self.recorder.annotations.gives_samples:
            return None
        if passing is not None:
            return passing[0].split, passing[1], passing[0]
        if handed is None or handed.ids is None:
            return None
        if share.first is not None:
            share.alike_in = share.training
        return share.split, handed.ids, None

    def forget_size(self) -> None:
        """The program says by itself what the batch counts."""
        self._size = None

    def write_size(self) -> None:
        """No event says what the loss is meant to be: judge by what DDP does, the mean over ranks.

        Before the backward of that forward, so that the program may say something else until then.
        """
        size, self._size = self._size, None
        if size is not None and self.recorder.pen is not None:
            self.recorder.pen.batch(size[0], size[1], size[1], float(size[1]), "rank-mean")

    def began(self, sampler: Any) -> None:
        """A pass over a distributed sampler begins."""
        recorder = self.recorder
        if recorder.pen is None or recorder.annotations.gives_epochs:
            return
        if held_by(sampler) is not None:
            return  # It has a sampler for its data set, whose order counts.
        if not recorder.samplers.is_first():
            return
        size = len(sampler.dataset)
        self.shuffles = self.shuffles or (bool(sampler.shuffle) and sampler.num_replicas > 1)
        key = int(sampler.seed) + int(sampler.epoch)
        rows = self.data_sets.rows(sampler.dataset)
        entries = entries_of(sampler.dataset) if sampler.num_replicas > 1 and self.data_sets.is_new(sampler.dataset) \
            else None
        order = _order_of(sampler, key)
        shape = (size, sampler.num_replicas, sampler.num_samples, bool(sampler.shuffle),
                 bool(sampler.drop_last), not sampler.drop_last)

        def write(split: str) -> None:
            if recorder.pen is not None:
                recorder.pen.epoch(split, _kind_of(sampler), key & (1 << 64) - 1, order, *shape)
                if rows is not None and sampler.num_replicas > 1:
                    recorder.pen.data(-1, DataPart.ROWS, split, _kind_of(sampler), [rows])
                if entries is not None:
                    held = {DataPart.ENTRIES: entries.numbers.sort().values, DataPart.ORDER: entries.numbers,
                            DataPart.CLASSES: entries.classes}
                    for part, values in held.items():
                        if len(values):
                            recorder.pen.data(-1, part, split, _kind_of(sampler), [values])

        self.pass_began(write, int(sampler.num_replicas))


def _kind_of(sampler: Any) -> str:
    return "distributed" if type(sampler) is DistributedSampler else type(sampler).__name__


def _order_of(sampler: Any, key: int) -> torch.Tensor:
    """The order of the whole epoch, as the sampler makes it from its own key: cut, or filled up with its
    beginning, to what all ranks take together."""
    size = len(sampler.dataset)
    order = torch.arange(size)
    if sampler.shuffle:
        generator = torch.Generator()
        generator.manual_seed(key)
        order = torch.randperm(size, generator=generator)
    whole = sampler.num_samples * sampler.num_replicas
    return order if whole == size or not size else order.repeat(-(-whole // size))[:whole]


def _is_gone(iterator: Any) -> Callable[[], bool]:
    place = weakref.ref(iterator)
    return lambda: place() is None


def _ids_of(index: Any) -> list[int]:
    return list(map(int, index)) if isinstance(index, (list, tuple)) else [int(index)]


def install(recorder: Recorder) -> None:
    batches = recorder.batches = Batches(recorder)
    left_out, streams = recorder.left_out, recorder.streams
    map_style = dataloader._DatasetKind.Map

    def make_iter(real: Callable[..., Any]) -> Callable[..., Any]:
        def __iter__(self: Any) -> Any:
            recorder.quietly(SEAM, lambda: batches.began(self))
            return real(self)
        return __iter__

    def make_next_index(real: Callable[..., Any]) -> Callable[..., Any]:
        def _next_index(self: Any) -> Any:
            before, batches.asking = batches.asking, self  # As asked_by(), once per batch.
            try:
                index = real(self)
            finally:
                batches.asking = before
            asked = self.__dict__.get(_ASKED)
            if asked is None and self._dataset_kind == map_style:
                asked = self.__dict__[_ASKED] = deque()
            if asked is not None:
                asked.append(index)
            return index
        return _next_index

    def make_next(real: Callable[..., Any]) -> Callable[..., Any]:
        def __next__(self: Any) -> Any:
            if batches.evaluated is not None:
                recorder.quietly(SEAM, batches.settle)
            data = real(self)
            known = self.__dict__
            asked, share = known.get(_ASKED), known.get(_SHARE)
            if asked and left_out.now and share is not None and share.alike_in == recorder.trainings.now \
                    and type(asked[0]) is list and not streams.own:
                batches.hand_alike(share, asked.popleft())
            elif asked or self._dataset_kind != map_style:
                try:
                    batches.hand(self, asked.popleft() if asked else None, data)
                    drawn = streams.handed(self)
                    if drawn:
                        batches.drawn += drawn
                except Exception as error:
                    recorder.trouble(SEAM, error)
            return data
        return __next__

    def make_reset(real: Callable[..., Any]) -> Callable[..., Any]:
        def _reset(self: Any, *args: Any, **kwargs: Any) -> Any:
            self.__dict__.pop(_ASKED, None)
            self.__dict__.pop(_BEGUN, None)
            with batches.asked_by(self):
                return real(self, *args, **kwargs)
        return _reset

    recorder.before_end.append(batches.settle)
    base = dataloader._BaseDataLoaderIter
    recorder.patches.wrap(DistributedSampler, "__iter__", make_iter)
    recorder.patches.wrap(base, "_next_index", make_next_index)
    recorder.patches.wrap(base, "__next__", make_next)
    recorder.patches.wrap(base, "_reset", make_reset)
    # A for loop calls `next`, which older versions keep beside __next__ under the same function.
    recorder.patches.wrap(dataloader._MultiProcessingDataLoaderIter, "_reset", make_reset)
