"""Closed sets of words, as numbers that the native part shares. A test compares both sides."""
from __future__ import annotations

from enum import IntEnum


class DType(IntEnum):
    F32 = 0
    F64 = 1
    F16 = 2
    BF16 = 3
    I8 = 4
    U8 = 5
    I32 = 6
    I64 = 7
    BOOL = 8


class GradPoint(IntEnum):
    """Where a gradient is looked at (docs/trace_format.md)."""

    BASE = 0
    INC = 1
    PRE = 2
    POST = 3
    USED = 4
    REDO = 5


class StateKind(IntEnum):
    PARAM = 0
    BUFFER = 1
    OPTIMIZER = 2
    AUXILIARY = 3


class StatePoint(IntEnum):
    WRAP = 0
    FORWARD = 1
    STEP = 2
    EVAL = 3
    LOAD = 4
    SAVE = 5
    END = 6
    OUTER = 7
    FOUND = 8


class PhaseKind(IntEnum):
    TRAIN = 0
    EVAL = 1
    SAVE = 2
    END = 3


class EndOutcome(IntEnum):
    NONE = 0
    EXCEPTION = 1
    KILLED = 2
    OK = 3
    STUCK = 4


class EndReason(IntEnum):
    """Why a rank that was killed or stuck was taken down, where more is known."""

    NONE = 0
    LIVELOCK = 1
    OTHER_FAILED = 2
    LAW_BROKEN = 3


class CollectiveOp(IntEnum):
    ALL_REDUCE = 0
    BROADCAST = 1
    REDUCE = 2
    ALL_GATHER = 3
    REDUCE_SCATTER = 4
    GATHER = 5
    SCATTER = 6
    ALL_TO_ALL = 7
    BARRIER = 8
    SEND = 9
    RECV = 10


class ReduceOp(IntEnum):
    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    PREMUL_SUM = 5
    BAND = 6
    BOR = 7
    BXOR = 8


class ExchangeJoin(IntEnum):
    """How the result of a collective joined a graph (docs/trace_format.md)."""

    CONSTANT = 0
    IN_PLACE = 1
    FUNCTION = 2


class LossReduction(IntEnum):
    """What became of a loss's terms."""

    MEAN = 0
    SUM = 1
    GIVEN = 2


class ClipKind(IntEnum):
    NORM = 0
    VALUE = 1
    PART = 2


class HookEffect(IntEnum):
    """What a communication hook makes of gradients."""

    MEAN = 0
    ROUNDED = 1
    OTHER = 2


class LonePoint(IntEnum):
    """When the parameters of a rank that trains alone are looked at."""

    STEPPED = 0
    FOUND = 1


class DataPart(IntEnum):
    """Of what the data that a rank reads leaves a digest."""

    ROWS = 0
    BATCH = 1
    SET = 2
    ENTRIES = 3
    ORDER = 4
    CLASSES = 5
    VOCABULARY = 6
    NUMBERING = 7
    DRAWN = 8
    FROZEN = 9


class LogKind(IntEnum):
    """What a line of a log is about (docs/trace_format.md)."""

    NONE = 0
    MISSED = 1
    NOT_LOADED = 2
    WRAPPED_AGAIN = 3
    BATCHES_KEPT = 4
    TAKEN_ELSEWHERE = 5
    RESULTS_OVERLAP = 6
    RESULT_DROPPED = 7
