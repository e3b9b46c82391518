"""What a rank's process and the coordinator say to each other, as sim/process/protocol.h has it.

Over a socket of kind SOCK_SEQPACKET, little-endian and packed. A message longer than MAX_PACKET
travels as several packets, each with the header; all but the last have MORE set.
"""
from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_PACKET = 128 * 1024  # With the header.
MORE = 0x8000
MAX_NAMES = 1 << 20
MAX_BUFFERS = 1 << 16
NO_NAME = 0xFFFFFFFF
NO_TIMEOUT = -1


class RequestKind(IntEnum):
    NAME = 1
    POST = 2
    WAIT = 3
    TEST = 4
    OPEN_GROUP = 5
    CLOSE_GROUP = 6
    STORE = 7
    SLEEP = 8
    POINT = 9
    END = 10
    STACK = 11
    LOG = 12
    FORGET = 13


class RequestFlag(IntFlag):
    WAITS = 1  # POST: as if WAIT followed.
    EXPIRES = 2  # POST, STORE: its timeout passes in virtual time whatever the options say.


class ReplyKind(IntEnum):
    DONE = 1
    VALUE = 2
    ASK_STACK = 3
    STOP = 4


class CommStatus(IntEnum):
    OK = 0
    TIMED_OUT = 1
    PEER_LOST = 2
    MISMATCH = 3
    ABORTED = 4
    STUCK = 5


class CallProblem(IntEnum):
    """Statuses of DONE in addition to CommStatus."""

    CONTRACT = 100
    INJECTED = 101


class ValueStatus(IntEnum):
    OK = 0
    TIMED_OUT = 1
    CONTRACT = 2
    INJECTED = 3


class StoreOp(IntEnum):
    SET = 0
    GET = 1
    WAIT = 2
    ADD = 3
    COMPARE_SET = 4
    CHECK = 5
    DELETE = 6
    NUM_KEYS = 7
    APPEND = 8


class PostFlag(IntFlag):
    ASYNC = 1
    COALESCED = 2
    ANY_SOURCE = 4
    TENSOR = 8


class PointKind(IntEnum):
    YIELD = 0
    POST = 1
    WAIT = 2
    FILE = 3
    DECISION = 4


REQUEST = struct.Struct("<HHI")
REPLY = struct.Struct("<HHIq")
_POST = struct.Struct("<iBBBBiidqQIiIIIII")
_BUFFER = struct.Struct("<Qq")
_GROUP_HEAD = struct.Struct("<II")
_STORE = struct.Struct("<BqIIIIi")
_PLACE = struct.Struct("<Ii")
I32 = struct.Struct("<i")
I64 = struct.Struct("<q")
_POINT = struct.Struct("<BQ")
_ID = struct.Struct("<I")


@dataclass(frozen=True)
class Post:
    """A call of a group. Buffers are (offset in the arena, elements)."""

    group: int
    op: int
    dtype: int
    reduce: int = 0
    flags: int = 0
    root_or_peer: int = -1
    tag: int = 0
    premul: float = 1.0
    timeout_ns: int = 0
    layout: int = 0
    file: int = NO_NAME
    line: int = 0
    scope: int = NO_NAME
    inputs: Sequence[tuple[int, int]] = ()
    outputs: Sequence[tuple[int, int]] = ()
    input_splits: Sequence[int] = ()
    output_splits: Sequence[int] = ()

    def encode(self) -> bytes:
        buffers = [*self.inputs, *self.outputs]
        splits = [*self.input_splits, *self.output_splits]
        head = _POST.pack(self.group, self.op, self.dtype, self.reduce, self.flags, self.root_or_peer,
                          self.tag, self.premul, self.timeout_ns, self.layout, self.file, self.line,
                          self.scope, len(self.inputs), len(self.outputs), len(self.input_splits),
                          len(self.output_splits))
        return b"".join((head, *(_BUFFER.pack(*buffer) for buffer in buffers),
                         struct.pack(f"<{len(splits)}q", *splits)))


def encode_name(number: int, text: str) -> bytes:
    return _ID.pack(number) + text.encode("utf-8", "replace")


def encode_group(name: int, members: Sequence[int], file: int, line: int) -> bytes:
    return (_GROUP_HEAD.pack(name, len(members)) + struct.pack(f"<{len(members)}i", *members)
            + _PLACE.pack(file, line))


def encode_store(op: StoreOp, timeout_ns: int, key: bytes, value: bytes, expected: bytes, file: int,
                 line: int) -> bytes:
    return _STORE.pack(op, timeout_ns, len(key), len(value), len(expected), file, line) + key + value + expected


def encode_point(kind: PointKind, thing: int) -> bytes:
    return _POINT.pack(kind, thing)


def encode_end(code: int, text: str) -> bytes:
    return I32.pack(code) + text.encode("utf-8", "replace")


@dataclass(frozen=True)
class Reply:
    kind: ReplyKind
    status: int
    ticket: int
    now_ns: int
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def done(self) -> tuple[int, str]:
        """Of a DONE: the sender of what was received, and what went wrong."""
        return I32.unpack_from(self.body)[0], self.body[I32.size:].decode("utf-8", "replace")


def packets(kind: RequestKind, flags: int, ticket: int, body: bytes) -> Iterator[bytes]:
    room = MAX_PACKET - REQUEST.size
    while len(body) > room:
        yield REQUEST.pack(kind, flags | MORE, ticket) + body[:room]
        body = body[room:]
    yield REQUEST.pack(kind, flags, ticket) + body
