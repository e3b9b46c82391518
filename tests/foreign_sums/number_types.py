"""The floating-point types that libraries add, as numpy arrays of exact doubles and as bytes."""
from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class NumberType:
    name: str  # As the programs beside this file call it.
    stored: str  # As safetensors calls it.
    size: int
    unit: Fraction  # Roundoff.
    smallest: Fraction
    smallest_normal: Fraction
    largest: float

    def rounded(self, values: Numbers) -> Numbers:
        """To nearest, ties to even. Doubles that hold results of one f32 operation are rounded once."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.decode(self.encode(values))

    def encode(self, values: Numbers) -> bytes:
        with np.errstate(over="ignore", invalid="ignore"):
            if self.name == "f64":
                return values.astype("<f8").tobytes()
            if self.name == "f32":
                return values.astype("<f4").tobytes()
            if self.name == "f16":
                return values.astype("<f2").tobytes()
        words = values.astype("<f4").view("<u4")
        nearest = (words + np.uint32(0x7FFF) + (words >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
        return np.where(np.isnan(values), 0x7FC0, nearest).astype("<u2").tobytes()

    def decode(self, data: bytes) -> Numbers:
        if self.name == "bf16":
            return (np.frombuffer(data, "<u2").astype("<u4") << np.uint32(16)).view("<f4").astype(np.float64)
        kind = {"f64": "<f8", "f32": "<f4", "f16": "<f2"}[self.name]
        return np.frombuffer(data, kind).astype(np.float64)

    def added(self, a: Numbers, b: Numbers) -> Numbers:
        """One rounding: 16-bit and 32-bit sums are exact enough one type up for the second one to be innocuous."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self.name in ("f16", "bf16"):
                return self.rounded((a.astype(np.float32) + b.astype(np.float32)).astype(np.float64))
            return self.rounded(a + b)


TYPES = {
    "f64": NumberType("f64", "F64", 8, Fraction(1, 2**53), Fraction(1, 2**1074), Fraction(1, 2**1022), float(np.finfo("f8").max)),
    "f32": NumberType("f32", "F32", 4, Fraction(1, 2**24), Fraction(1, 2**149), Fraction(1, 2**126), float(np.finfo("f4").max)),
    "f16": NumberType("f16", "F16", 2, Fraction(1, 2**11), Fraction(1, 2**24), Fraction(1, 2**14), 65504.0),
    "bf16": NumberType("bf16", "BF16", 2, Fraction(1, 2**8), Fraction(1, 2**133), Fraction(1, 2**126), 3.3895313892515355e38),
}


def safetensors(kind: NumberType, data: bytes) -> bytes:
    """A file with one tensor, `sum`."""
    tensor = {"dtype": kind.stored, "shape": [len(data) // kind.size], "data_offsets": [0, len(data)]}
    header = json.dumps({"sum": tensor}).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + data


def same(a: Numbers, b: Numbers) -> bool:
    """Equal numbers: the two zeros are one, and all NaNs are."""
    return bool(np.all((a == b) | (np.isnan(a) & np.isnan(b))))
