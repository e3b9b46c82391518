"""The calls of a trace alone, as a program for simulated ranks and as a script for PyTorch's."""
from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.reproduce.quoting import quoted

if TYPE_CHECKING:
    from lockstep.report import Finding
    from lockstep.reproduce.facts import Call, Facts

MOST_CALLS = 64  # Of a rank; earlier ones are left out.
TORCH_TYPES = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "i8": "int8",
               "u8": "uint8", "i32": "int32", "i64": "int64", "bool": "bool"}
REDUCED = ("all_reduce", "reduce", "reduce_scatter")


class Calls:
    """The last calls of all ranks, from a place on that all of them reached together."""

    def __init__(self, facts: Facts, finding: Finding) -> None:
        self.n = facts.n
        self.groups: dict[int, list[int]] = {}
        for rank in facts.ranks:
            self.groups.update(rank.groups)
        self.by_rank = [list(rank.calls) for rank in facts.ranks]
        self.left_out = self._cut(finding)

    def _cut(self, finding: Finding) -> int:
        """Keeps the last calls. Returns: how many of the finding's group are left out."""
        if max(map(len, self.by_rank), default=0) <= MOST_CALLS:
            return 0
        seq = finding.seq if finding.seq is not None else max(
            (call.seq for calls in self.by_rank for call in calls if call.group == finding.group), default=0)
        first = max(0, seq - 4)
        for rank, calls in enumerate(self.by_rank):
            place = next((i for i, call in enumerate(calls)
                          if call.group == finding.group and call.seq >= first), 0)
            self.by_rank[rank] = calls[place:]
        used = {call.group for calls in self.by_rank for call in calls}
        self.groups = {group: members for group, members in self.groups.items() if group in used}
        return first

    def size_of(self, group: int) -> int:
        return len(self.groups[group]) if group in self.groups else self.n

    def tensors(self) -> list[tuple[str, str, int]]:
        """Name, type and elements of what the program's calls move."""
        needed: dict[str, tuple[str, int]] = {}
        for calls in self.by_rank:
            for call in calls:
                if call.op == "barrier":
                    continue
                for name, n in (self.input_of(call), self.output_of(call)):
                    if name:
                        needed[name] = (call.dtype, n)
        return [(name, dtype, n) for name, (dtype, n) in sorted(needed.items())]

    def input_of(self, call: Call) -> tuple[str, int]:
        return f"in_{call.dtype}_{call.count}", call.count

    def output_of(self, call: Call) -> tuple[str, int]:
        n = {"all_gather": call.count * self.size_of(call.group), "all_to_all": call.count,
             "gather": call.count * self.size_of(call.group),
             "scatter": call.count // max(1, self.size_of(call.group)),
             "reduce_scatter": call.count // max(1, self.size_of(call.group))}.get(call.op)
        return ("", 0) if n is None else (f"out_{call.dtype}_{n}", n)

    def toml(self) -> list[str]:
        lines = [f'tensor.{name} = {{ dtype = "{dtype}", shape = [{max(1, n)}] }}'
                 for name, dtype, n in self.tensors()]
        programs = []
        for rank, calls in enumerate(self.by_rank):
            body = [f'{{ op = "group", name = "g{group}", ranks = {members} }}'
                    for group, members in sorted(self.groups.items())]
            body += [self._toml_of(call) for call in calls]
            programs.append(f"{{ ranks = [{rank}], body = [\n    " + ",\n    ".join(body) + " ] }")
        return [*lines, "program = [\n  " + ",\n  ".join(programs) + " ]"]

    def _toml_of(self, call: Call) -> str:
        parts = [f'op = "{call.op}"']
        if call.op != "barrier":
            parts.append(f'tensor = "{self.input_of(call)[0]}"')
        output, _ = self.output_of(call)
        if output:
            parts.append(f'output = "{output}"')
        if call.op in REDUCED and call.reduce in ("sum", "avg", "product", "min", "max"):
            parts.append(f'reduce = "{call.reduce}"')
        if call.root >= 0 and call.op in ("broadcast", "reduce", "gather", "scatter"):
            parts.append(f"root = {call.root}")
        if call.op in ("send", "recv"):
            parts += [f"peer = {max(0, call.peer)}", f"tag = {max(0, call.tag)}"]
        if call.group in self.groups:
            parts.append(f'group = "g{call.group}"')
        if call.site:
            parts.append(f"site = {quoted(call.site)}")
        return "{ " + ", ".join(parts) + " }"

    def script(self) -> str:
        """The body of a function that makes these calls on PyTorch's ranks."""
        groups = (f"{group}: dist.new_group({members})" for group, members in sorted(self.groups.items()))
        lines = [f"groups = {{{', '.join(groups)}}}", "calls = {"]
        for rank, calls in enumerate(self.by_rank):
            made = ",\n        ".join(f"lambda: {self._python_of(call)}" for call in calls)
            lines.append(f"    {rank}: [\n        {made}]," if made else f"    {rank}: [],")
        lines += ["}", "for call in calls[dist.get_rank()]:", "    call()"]
        return "\n    ".join(lines)

    def _python_of(self, call: Call) -> str:
        n = self.size_of(call.group)
        group = f", group=groups[{call.group}]" if call.group in self.groups else ""
        reduce = f", op=dist.ReduceOp.{call.reduce.upper()}" if call.op in REDUCED else ""
        root = self._world_rank(call.group, max(0, call.root))
        peer = self._world_rank(call.group, max(0, call.peer))

        def made(count: int) -> str:
            return f"torch.zeros({count}, dtype=torch.{TORCH_TYPES[call.dtype]})"

        whole, part = made(call.count), made(call.count // max(1, n))
        at_root = f"if dist.get_rank() == {root} else None, {root}{group})"
        texts = {
            "all_reduce": f"dist.all_reduce({whole}{reduce}{group})",
            "broadcast": f"dist.broadcast({whole}, {root}{group})",
            "reduce": f"dist.reduce({whole}, {root}{reduce}{group})",
            "barrier": f"dist.barrier({group[2:]})",
            "all_gather": f"dist.all_gather([{whole} for _ in range({n})], {whole}{group})",
            "gather": f"dist.gather({whole}, [{whole} for _ in range({n})] {at_root}",
            "scatter": f"dist.scatter({part}, [{part} for _ in range({n})] {at_root}",
            "reduce_scatter": f"dist.reduce_scatter({part}, [{part} for _ in range({n})]{reduce}{group})",
            "all_to_all": f"dist.all_to_all([{part} for _ in range({n})], [{part} for _ in range({n})]{group})",
            "send": f"dist.send({whole}, {peer}{group}, tag={max(0, call.tag)})",
            "recv": f"dist.recv({whole}, {peer}{group}, tag={max(0, call.tag)})"}
        return texts[call.op]

    def _world_rank(self, group: int, rank: int) -> int:
        members = self.groups.get(group)
        return members[rank] if members and rank < len(members) else rank
