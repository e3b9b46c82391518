"""Collectives inside a loss: what of a graph a call has sent, whether its result is part of the loss of
the next backward, and whether that backward makes a call for it.

No patch of its own: groups.py hands over every call, gradients.py says when a backward begins and ends.
A call is looked at more closely only where it sends what autograd computed, and only the backwards that
follow such a call search their graph, from the loss down to it. Nothing of a graph is kept meanwhile:
nodes are known by their sequence numbers.
"""
from __future__ import annotations

import dis
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.function import BackwardCFunction

from lockstep.enums import CollectiveOp, ExchangeJoin, ReduceOp
from lockstep.torch.groups import ENGINE
from lockstep.torch.loss_factor import Slopes
from lockstep.torch.losses import SCALED_BY
from lockstep.torch.plain_rows import FEWEST, MOST_LOOKS, PlainRows, edges_around
from lockstep.torch.recorder import BACKWARD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

    from lockstep.torch.groups import Call
    from lockstep.torch.recorder import Recorder

SEAM = "exchanges"
MOST_OPEN = 64
MOST_HELD = 1024
MOST_FRAMES = 24
FORGOTTEN = 2  # Backwards that a call took no part in.
_EXCHANGES = frozenset((CollectiveOp.ALL_REDUCE, CollectiveOp.ALL_GATHER, CollectiveOp.REDUCE_SCATTER,
                        CollectiveOp.ALL_TO_ALL))
_JOINERS = ("CatBackward0", "StackBackward0")
# Functions of PyTorch's own: what their forwards exchange, their backwards do; or, it is the program's
# code that runs inside them.
_DIFFERENTIABLE = "/torch/distributed/nn/functional.py"  # They return what they do, and leave what they are given as it is.
_MAKERS = ("distributed_c10d.py", "_functional_collectives.py")
_OWN = ("/torch/nn/", "/torch/utils/", "/torch/_functorch/", "/torch/_dynamo/")


@dataclass
class _Exchange:
    call: str
    reduce: ReduceOp
    group: int
    size: int
    rank: int  # In the group.
    seq: int
    step: int
    site: str
    join: ExchangeJoin
    place: int  # Of the node that takes the gradient of the result; of a constant: of what was sent.
    since: int  # Nodes from this number on were made after the call.
    in_loss: bool = False
    answered: bool = False
    passed: int = 0  # Backwards without it.
    node: Any = None  # While a backward runs.
    digest: int = 0
    wrapper: int = -1
    # Windows of this many micro-steps whose mean its loss takes, with a factor for the ranks.
    windows: frozenset[int] = frozenset()
    rows: PlainRows | None = None  # Of a gather: what it sent.
    plain: bool = False  # No gradient can come back for it.
    is_mean: bool = False  # A function divides what it sums up: by the number of ranks, what else.
    hands_on: bool = False  # Its backward hands on the gradient that it gets.


def _contexts(frame: FrameType | None, function: str) -> Iterator[tuple[Any, CodeType]]:
    """The contexts of the autograd functions whose `function` runs, the innermost first, and its code."""
    for _ in range(MOST_FRAMES):
        if frame is None:
            return
        code = frame.f_code
        # Other locals are left alone: a frame that is asked for them keeps what it had.
        if code.co_name == function and code.co_argcount and code.co_varnames[0].startswith(("ctx", "context")):
            context = frame.f_locals.get(code.co_varnames[0])
            if isinstance(context, BackwardCFunction):
                yield (context if not any(place in code.co_filename for place in _OWN) else None), code
        frame = frame.f_back


def _is_mean(call: Call) -> bool:
    """Whether a function of autograd takes the mean of what it sends."""
    code = next((code for _, code in _contexts(call.frame, "forward")), None)
    sums = call.op is CollectiveOp.ALL_REDUCE and call.reduce is ReduceOp.SUM
    return call.reduce is ReduceOp.AVG or (sums and code is not None and _divides(code))


@cache
def _divides(code: CodeType) -> bool:
    return any(step.argrepr in ("/", "/=") or step.opname.endswith("TRUE_DIVIDE") or step.argval in ("div", "div_")
               for step in dis.get_instructions(code))


def _drops_result(frame: FrameType | None) -> bool:
    """Whether the program calls one of PyTorch's differentiable collectives as a statement, and so never reads what it returns."""
    inside = False
    for _ in range(MOST_FRAMES):
        if frame is None:
            break
        if frame.f_code.co_filename.endswith(_DIFFERENTIABLE):
            inside = True
        elif inside and "/torch/" not in frame.f_code.co_filename:
            return _is_statement(frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return False


@cache
def _is_statement(code: CodeType, offset: int) -> bool:
    """Whether the value of the call at this place of the code is thrown away."""
    after = (step for step in dis.get_instructions(code) if step.offset > offset)  # A call may take several places.
    return next(after).opname == "POP_TOP"


def _is_of_program(frame: FrameType | None) -> bool:
    """Whether code of the program, or of a function of autograd, makes a call in a backward: the reducer
    and its hooks make others."""
    found = False
    for _ in range(MOST_FRAMES):
        if frame is None or frame.f_code.co_name == ENGINE:
            break
        file = frame.f_code.co_filename
        if "ddp_comm_hooks" in file:
            return False
        found = found or file.endswith(_MAKERS)
        frame = frame.f_back
    return found


def _number(node: Any) -> int:
    return int(node._sequence_nr())


class Exchanges:
    """The open exchanges of this rank, and the backward that runs."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.open: list[_Exchange] = []
        self._held: list[_Exchange] = []  # Until a step says how many micro-steps its window had.
        self._micros: dict[int, int] = {}  # Backwards with exchanges in a wrapper's window.
        self._looks: Counter[str] = Counter()  # At the plain rows of gathers, by site.
        self._slopes = Slopes()
        self._handles: list[Any] = []
        self._next_number = getattr(getattr(torch._C, "_autograd", None), "_get_sequence_nr", None)

    @property
    def busy(self) -> bool:
        """Some exchange is open, or held until a step."""
        return bool(self.open or self._held)

    # -- calls

    def posted(self, call: Call) -> None:
        if self._next_number is None:
            return
        if self.recorder.scope == BACKWARD:
            if self.open:
                self._answer(call)
            return
        if call.op not in _EXCHANGES or len(self.open) >= MOST_OPEN or not call.inputs:
            return
        if _drops_result(call.frame):
            self._write_dropped(call)
            return
        join, place = self._joined(call)
        if place < 0:
            return
        self.open.append(_Exchange(
            call.op.name.lower(), call.reduce, call.calls.number, call.calls.size, call.calls.rank, call.seq,
            self.recorder.current.opt, call.site, join, place, self._next_number(), rows=self._rows_of(call, join),
            is_mean=join is ExchangeJoin.FUNCTION and _is_mean(call)))

    def _rows_of(self, call: Call, join: ExchangeJoin) -> PlainRows | None:
        if join is not ExchangeJoin.CONSTANT or call.op is not CollectiveOp.ALL_GATHER or len(call.inputs) != 1:
            return None
        [sent] = call.inputs
        if not sent.is_floating_point() or sent.numel() < FEWEST or self._looks[call.site] >= MOST_LOOKS:
            return None
        self._looks[call.site] += 1
        return PlainRows(self.recorder, sent, call.calls.rank, call.calls.size)

    def _joined(self, call: Call) -> tuple[ExchangeJoin, int]:
        """How the result will join a graph, and the number of the node that says where; -1 = it will not."""
        if not torch.is_grad_enabled():
            context, _ = next(_contexts(call.frame, "forward"), (None, None))
            sends = any(tensor.is_floating_point() for tensor in call.inputs)
            if context is None or not sends or not any(context.needs_input_grad):
                return ExchangeJoin.FUNCTION, -1
            return ExchangeJoin.FUNCTION, _number(context)
        for tensor in call.inputs:
            if tensor.grad_fn is not None:
                in_place = call.op is CollectiveOp.ALL_REDUCE
                return ExchangeJoin.IN_PLACE if in_place else ExchangeJoin.CONSTANT, _number(tensor.grad_fn)
        return ExchangeJoin.CONSTANT, -1

    def _answer(self, call: Call) -> None:
        """A call in a backward: it belongs to the function that makes it, else to the last open exchange."""
        if not _is_of_program(call.frame):
            return
        group = call.calls.number
        contexts = [context for context, _ in _contexts(call.frame, "backward") if context is not None]
        # Where one function begins a call and another one waits for it, that one's backward begins the call back.
        fed = (child for context in contexts for child, _ in context.next_functions if child is not None)
        inside = {_number(node) for node in (*contexts, *fed)}
        for exchange in reversed(self.open):
            if not exchange.in_loss or exchange.group != group:
                continue
            if exchange.join is ExchangeJoin.FUNCTION:
                exchange.answered = exchange.answered or exchange.place in inside
            elif not exchange.answered and not exchange.plain:
                exchange.answered = True
                return

    # -- backwards

    def begin_backward(self, roots: Any) -> None:
        nodes = [root.grad_fn for root in ([roots] if torch.is_tensor(roots) else roots)
                 if getattr(root, "grad_fn", None) is not None]
        for exchange in self.open:
            exchange.in_loss, exchange.node = False, None
        only = roots if torch.is_tensor(roots) else roots[0] if len(roots) == 1 else None
        self._slopes.begin(nodes, getattr(only, SCALED_BY, 1.0))
        lowest = min(exchange.place for exchange in self.open)
        starts, seen = list(nodes), set(nodes)
        while nodes:
            node = nodes.pop()
            self._look_at(node)
            self._slopes.watch(node)
            for child, _ in node.next_functions:
                if child is not None and child not in seen and _number(child) >= lowest:
                    seen.add(child)
                    nodes.append(child)
        self._find_plain_rows(starts)
        for exchange in self.open:
            if exchange.in_loss and exchange.node is not None:
                self._handles.append(exchange.node.register_prehook(_Arrival(self.recorder, exchange)))
                if exchange.is_mean:
                    self._handles.append(exchange.node.register_hook(_Departure(self.recorder, exchange)))

    def _find_plain_rows(self, roots: list[Any]) -> None:
        gathers = [(exchange, exchange.rows) for exchange in self.open if exchange.rows is not None]
        plain = {node for _, rows in gathers for node in rows.holders}
        lowest = min((number for _, rows in gathers for number, _ in rows.edges), default=0)
        around = edges_around(roots, plain, lowest) if plain else set()
        for exchange, rows in gathers:
            if rows.holders and rows.edges.isdisjoint(around):
                exchange.in_loss = exchange.plain = True
            rows.holders.clear()

    def _look_at(self, node: Any) -> None:
        """Finds the exchanges whose results this node of the loss's graph takes in."""
        number = _number(node)
        for exchange in self.open:
            if exchange.join is ExchangeJoin.FUNCTION:
                if number == exchange.place and isinstance(node, BackwardCFunction):
                    exchange.in_loss, exchange.node = True, node
            elif number >= exchange.since:
                self._look_for(exchange, node)
                if exchange.rows is not None:
                    exchange.rows.look_at(node)

    def _look_for(self, exchange: _Exchange, node: Any) -> None:
        edges = [child for child, _ in node.next_functions]
        at = [i for i, child in enumerate(edges) if child is not None and _number(child) == exchange.place]
        if not at:
            return
        if exchange.join is ExchangeJoin.IN_PLACE:
            exchange.in_loss, exchange.node = True, edges[at[0]]
        elif _puts_own_rows(exchange, node, edges, at):
            exchange.in_loss, exchange.node = True, node

    def end_backward(self) -> None:
        """Writes what was part of the loss, or holds it until the step."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        if any(exchange.in_loss for exchange in self.open):
            wrapper = self.recorder.current.wrapper
            self._micros[wrapper] = self._micros.get(wrapper, 0) + 1
        kept = []
        for exchange in self.open:
            if exchange.in_loss:
                self._judge(exchange)
                continue
            exchange.passed += 1
            if exchange.passed < FORGOTTEN:
                kept.append(exchange)
        self.open = kept
        self._slopes.end()

    def _judge(self, exchange: _Exchange) -> None:
        exchange.wrapper = self.recorder.current.wrapper
        scaled = False
        if not exchange.answered and exchange.node is not None:
            scaled = self._slopes.is_scaled(exchange.node, exchange.size) or self._is_own(exchange)
            if not scaled:
                exchange.windows = self._slopes.windows(exchange.node, exchange.size)
        exchange.node = None
        if scaled or not exchange.windows:
            self._write(exchange, scaled)
        elif len(self._held) < MOST_HELD:
            self._held.append(exchange)

    def _is_own(self, exchange: _Exchange) -> bool:
        """Whether the gradient of the own share is the right one, since the wrapper averages it with the others'. That of a mean of the
        ranks is, where a function hands it on undivided; so is that of the own loss, where the loss is nothing but what the function sums up."""
        is_sum = exchange.join is ExchangeJoin.FUNCTION and exchange.call == "all_reduce"
        return is_sum and (exchange.hands_on or self._slopes.is_loss(exchange.node))

    def stepped(self) -> None:
        """An optimizer has stepped or left it out: its window is over."""
        for exchange in self._held:
            self._write(exchange, self._micros[exchange.wrapper] in exchange.windows)
        self._held.clear()
        self._micros.clear()

    def _write(self, exchange: _Exchange, scaled: bool) -> None:
        if self.recorder.pen is not None:
            self.recorder.pen.exchange(
                exchange.wrapper, exchange.call, exchange.reduce, exchange.group, exchange.seq, exchange.size,
                exchange.step, exchange.site, exchange.join, exchange.answered, scaled, exchange.digest, False)

    def _write_dropped(self, call: Call) -> None:
        if self.recorder.pen is not None:
            self.recorder.pen.exchange(
                self.recorder.current.wrapper, call.op.name.lower(), call.reduce, call.calls.number, call.seq, call.calls.size,
                self.recorder.current.opt, call.site, ExchangeJoin.FUNCTION, False, False, 0, True)


def _puts_own_rows(exchange: _Exchange, node: Any, edges: list[Any], at: list[int]) -> bool:
    """Whether this node makes one tensor of what a gather returned, with the rank's own part, as the graph
    has it, in its place."""
    others = [child for i, child in enumerate(edges) if i != exchange.rank]
    return node.name() in _JOINERS and at == [exchange.rank] and len(edges) == exchange.size and not any(others)


class _Arrival:
    """Reads the gradient that arrives where a result joined the graph."""

    def __init__(self, recorder: Recorder, exchange: _Exchange) -> None:
        self._recorder = recorder
        self._exchange = exchange

    def __call__(self, grads: tuple[Any, ...]) -> None:
        self._recorder.quietly(SEAM, lambda: self._read(grads))

    def _read(self, grads: tuple[Any, ...]) -> None:
        pen = self._recorder.pen
        if pen is None or self._exchange.answered:
            return
        digest = 0
        for grad in grads:
            own = pen.digest(grad) if grad is not None else 1
            digest = (digest * 0x9E3779B97F4A7C15 + own) % (1 << 64)
        self._exchange.digest = digest


class _Departure:
    """Compares the gradient that a function hands on with the one that it has got."""

    def __init__(self, recorder: Recorder, exchange: _Exchange) -> None:
        self._recorder = recorder
        self._exchange = exchange

    def __call__(self, handed_on: tuple[Any, ...], got: tuple[Any, ...]) -> None:
        self._recorder.quietly(SEAM, lambda: self._compare(handed_on, got))

    def _compare(self, handed_on: tuple[Any, ...], got: tuple[Any, ...]) -> None:
        given = [grad for grad in handed_on if grad is not None]
        self._exchange.hands_on = len(given) == len(got) == 1 and got[0] is not None and torch.equal(given[0], got[0])


def install(recorder: Recorder) -> None:
    recorder.exchanges = Exchanges(recorder)
