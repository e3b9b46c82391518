"""What ranks and the coordinator say to each other is written twice, in Python and in C++: both say the same."""
from __future__ import annotations

import re
from enum import IntEnum, IntFlag
from pathlib import Path

import pytest
from lockstep.virtual import wire

ROOT = Path(__file__).resolve().parents[3]
PROTOCOL = ROOT / "sim" / "process" / "protocol.h"
LETTERS = {"std::int32_t": "i", "std::uint32_t": "I", "std::int64_t": "q", "std::uint64_t": "Q", "double": "d",
           "std::uint8_t": "B", "std::uint16_t": "H"}
# Where each of Python's enums is written in C++; the bit MORE is a constant of its own there.
ENUMS: dict[type[IntEnum] | type[IntFlag], Path] = {
    wire.RequestKind: PROTOCOL, wire.RequestFlag: PROTOCOL, wire.ReplyKind: PROTOCOL, wire.CallProblem: PROTOCOL,
    wire.ValueStatus: PROTOCOL, wire.StoreOp: PROTOCOL, wire.PostFlag: PROTOCOL,
    wire.CommStatus: ROOT / "src" / "comm" / "comm_status.h", wire.PointKind: ROOT / "src" / "base" / "host.h"}


def code_of(path: Path) -> str:
    return re.sub(r"//.*", "", path.read_text())


def value_of(text: str) -> int:
    """An expression of unsigned literals, shifts and products."""
    plain = re.sub(r"std::size_t\{(\d+)\}", r"\1", text)
    plain = re.sub(r"(?<=[0-9A-Fa-f])U\b", "", plain)
    assert re.fullmatch(r"[0-9A-Fa-fx<*\s]+", plain), text
    return int(eval(plain))


def enum_of(code: str, name: str) -> dict[str, int]:
    """Python's names and numbers of a C++ enum."""
    found = re.search(rf"enum class {name} : [\w:]+ \{{(.*?)\}};", code, re.S)
    assert found is not None, name
    numbers: dict[str, int] = {}
    for entry in found.group(1).split(","):
        word, _, value = (part.strip() for part in entry.partition("="))
        if word:
            numbers[re.sub(r"(?<!^)(?=[A-Z])", "_", word.removeprefix("k")).upper()] = (
                value_of(value) if value else max(numbers.values(), default=-1) + 1)
    return numbers


@pytest.mark.parametrize("enum", ENUMS, ids=lambda enum: enum.__name__)
def test_an_enum_has_the_numbers_of_c_plus_plus(enum: type[IntEnum]) -> None:
    numbers = enum_of(code_of(ENUMS[enum]), enum.__name__)
    if enum is wire.RequestFlag:
        assert numbers.pop("MORE") == wire.MORE
    assert {member.name: member.value for member in enum} == numbers


@pytest.mark.parametrize(("name", "value"), [
    ("kMaxPacket", wire.MAX_PACKET), ("kMaxNames", wire.MAX_NAMES), ("kMaxBuffers", wire.MAX_BUFFERS),
    ("kNoName", wire.NO_NAME), ("kMoreReply", wire.MORE)])
def test_a_constant_is_the_same(name: str, value: int) -> None:
    found = re.search(rf"constexpr [\w:]+ {name} = ([^;]+);", code_of(PROTOCOL))
    assert found is not None
    assert value_of(found.group(1)) == value


def fields_of(function: str) -> str:
    """The fixed fields that a function of protocol.cc reads, as module struct has them."""
    code = code_of(PROTOCOL.with_suffix(".cc"))
    body = re.search(rf"Result<\w+> {function}\(.*?\n\}}\n", code, re.S)
    assert body is not None, function
    in_order = re.sub(r"(get_numbers<[\w:]+>)\(body, (body\.get<[\w:]+>)\(\)\)", r"\2 \1", body.group(0))
    reads = re.findall(r"body\.(?:get<([\w:]+)>|(choice)<)|(get_slices|get_numbers)", in_order)
    letters = ""
    for plain, choice, _ in reads:
        letters += LETTERS[plain] if plain else "B" if choice else "*"
    return letters


@pytest.mark.parametrize(("function", "layout"), [
    ("decode_post", wire._POST.format.removeprefix("<") + "****"),
    ("decode_group", wire._GROUP_HEAD.format.removeprefix("<") + "*" + wire._PLACE.format.removeprefix("<")),
    ("decode_store", wire._STORE.format.removeprefix("<")),
    ("decode_point", wire._POINT.format.removeprefix("<")),
    ("decode_name", wire._ID.format.removeprefix("<")),
    ("decode_end", wire.I32.format.removeprefix("<"))])
def test_a_body_has_the_fields_that_c_plus_plus_reads(function: str, layout: str) -> None:
    assert fields_of(function) == layout


def test_a_buffer_and_a_header_are_as_long_as_there() -> None:
    packing = code_of(PROTOCOL.with_suffix(".cc"))
    slice_bytes = re.search(r"kSliceBytes = (\d+)", packing)
    assert slice_bytes is not None and int(slice_bytes.group(1)) == wire._BUFFER.size
    assert (wire.REQUEST.size, wire.REPLY.size) == (8, 16)


def test_a_number_that_differs_would_be_noticed() -> None:
    code = code_of(PROTOCOL).replace("kContract = 100", "kContract = 101")
    assert enum_of(code, "CallProblem") != {member.name: member.value for member in wire.CallProblem}
