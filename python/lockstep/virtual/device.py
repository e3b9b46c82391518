"""What `--device` chooses: the CPU, or the CPU for scripts that ask for GPUs."""
from __future__ import annotations

from dataclasses import dataclass

PRETENDING = "cpu-as-cuda"
MOST_GPUS = 1 << 10  # Of a node.
_GPUS_OF_A_SCRIPT = 2  # That starts its ranks itself: enough for a distributed job.


class UnknownDevice(ValueError):
    """Says what there is."""


@dataclass(frozen=True)
class Device:
    pretends: bool = False  # What asks for a GPU is given the CPU.
    gpus: int = 0  # That a node seems to have; 0: as many as it has ranks.

    @classmethod
    def parse(cls, word: str) -> Device:
        """Raises UnknownDevice."""
        kind, colon, count = word.partition(":")
        if kind == PRETENDING and not colon:
            return cls(pretends=True)
        if kind == PRETENDING:
            if not (count.isascii() and count.isdigit() and 1 <= int(count) <= MOST_GPUS):
                raise UnknownDevice(f"the number of GPUs must be a whole number from 1 to {MOST_GPUS}")
            return cls(pretends=True, gpus=int(count))
        if word == "cpu":
            return cls()
        raise UnknownDevice(f"not simulated: cpu, {PRETENDING} and {PRETENDING}:N are")

    def __str__(self) -> str:
        if not self.pretends:
            return "cpu"
        return f"{PRETENDING}:{self.gpus}" if self.gpus else PRETENDING

    def of_node(self, ranks: int) -> int:
        """GPUs that a node with this many ranks seems to have; 0: none."""
        return (self.gpus or ranks) if self.pretends else 0

    def of_script(self) -> int:
        """GPUs that a script sees which starts its ranks itself, and may count GPUs to know how many; 0: none."""
        return self.of_node(_GPUS_OF_A_SCRIPT)
