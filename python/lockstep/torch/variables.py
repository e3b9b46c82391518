"""The search for tables in what a program holds. No attribute is computed, no method called, no sample read: an object may
load a module, or another object, as soon as it is asked for anything, so classes are asked what an object is."""
from __future__ import annotations

import dis
import functools
import inspect
import os
import sys
from itertools import islice, takewhile
from types import CellType, CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch.utils.data import dataloader  # May be loading still: the recorder starts while torch.utils.data loads torch.distributed.
from torch.utils.data.dataset import Dataset
from torch.utils.data.sampler import Sampler

from lockstep.torch.sites import is_installed, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

Answer = TypeVar("Answer")
MOST_VALUES = 4096  # That are looked at.
MOST_FOUND = 64
MOST_ENTRIES = 16  # Of a list or a dict that may hold a table. Longer ones are data.
DEEPEST = 4  # Objects in objects.
_SHOWING = {"locals", "vars", "dir", "eval", "exec"}


class Search:
    """`table_of`: what is looked for, given a dict, a list or a tuple; None where it is something else.

    Names are the same on all ranks of one program, so tables of one name are one table. A list counts as one only where the
    code beside it asks for places in lists (`words.index(word)`): else it may be one that is sorted before it is used."""

    def __init__(self, table_of: Callable[[Any], Any]) -> None:
        self.found: dict[str, Any] = {}
        self._table_of = table_of
        self._seen: set[int] = set()
        self._n_left = MOST_VALUES

    def variables(self, where: str, named: Mapping[str, Any], lists: bool) -> None:
        for name, value in list(named.items()):
            if type(name) is str and not name.startswith("__"):
                self._value(where, name, value, lists, 0)

    def _value(self, where: str, name: str, value: Any, lists: bool, depth: int) -> None:
        if depth > DEEPEST or self._n_left == 0 or id(value) in self._seen or len(self.found) == MOST_FOUND:
            return
        kind = type(value)
        if issubclass(kind, (bool, int, float, complex, str, bytes, torch.Tensor, type)):
            return
        self._n_left -= 1
        self._seen.add(id(value))
        if issubclass(kind, dict) or (lists and kind in (list, tuple)):
            table = self._table_of(value)
            if table is not None:
                self.found[f"`{name}` {where}"] = table
        asks = lists or _asks(value)
        for part, inside in _parts_of(value):
            self._value(where, name + part, inside, asks, depth + 1)


def search(table_of: Callable[[Any], Any], frame: FrameType | None) -> dict[str, Any]:
    """In variables of the functions that run at `frame`, and of all modules of the program."""
    found = Search(table_of)
    frames = [one for one in _frames_from(frame) if is_of_the_program(one.f_code.co_filename)]
    for one in frames:
        code = one.f_code
        if not _may_be_read(code):
            continue
        variables = one.f_locals
        found.variables(f"of {code.co_name}() in {os.path.basename(code.co_filename)}", variables, _asks_for_places(code))
        if type(variables) is dict:  # Python keeps it as long as the function runs, and all that is in it.
            variables.clear()
    for variables in _modules.of_the_program():
        own = [one.f_code for one in frames if one.f_globals is variables]
        lists = any(map(_asks_for_places, [*own, *_codes_in(variables)]))
        found.variables(f"in {os.path.basename(variables['__file__'])}", variables, lists)
    return found.found


class _Modules:
    """Those of the program among all that are loaded, two thousand with PyTorch. A module is looked at once: a process that was forked
    would have to copy the memory of all of them."""

    def __init__(self) -> None:
        self._names: list[str] = []  # Of the program.
        self._last = ""  # All modules up to this one have been looked at.

    def look(self) -> None:
        # One call without code of Python's: no other thread can load a module meanwhile.
        newer = list(takewhile(self._last.__ne__, reversed(sys.modules)))
        if newer:
            self._last = newer[0]
        known = {*self._names}
        self._names += [name for name in reversed(newer) if name not in known and _is_of_the_program(sys.modules.get(name))]

    def of_the_program(self) -> Iterator[dict[str, Any]]:
        """Their variables, the script's first: it takes the place of what started it."""
        self.look()
        for name in ["__main__", *(name for name in self._names if name != "__main__")]:
            module = sys.modules.get(name)
            if _is_of_the_program(module):
                yield _own_attributes(module)


_modules = _Modules()
look_at_modules = _modules.look


def is_of_the_program(file: str) -> bool:
    """Whether a file is neither Python's, nor PyTorch's, nor another package's."""
    # A module may make its name up.
    return not is_installed(file) and os.path.exists(file) and bool(shown(file))


def _is_of_the_program(module: Any) -> bool:
    file = _own_attributes(module).get("__file__")
    return type(file) is str and is_of_the_program(file)


def ask(frame: FrameType, question: Callable[[Mapping[str, Any], Mapping[str, Any]], Answer], otherwise: Answer) -> Answer:
    """What is to be known of the variables of a function that runs, and of its module's; `otherwise` where they cannot be read."""
    code = frame.f_code
    if code.co_flags & inspect.CO_OPTIMIZED and not _may_be_read(code):
        return otherwise
    variables = frame.f_locals
    answer = question(variables, frame.f_globals)
    if code.co_flags & inspect.CO_OPTIMIZED and type(variables) is dict:  # As in search().
        variables.clear()
    return answer


def is_variable(value: Any, frame: FrameType) -> bool:
    """Whether a variable has this value; or may have it."""
    return ask(frame, lambda *all_of_them: any(one is value for named in all_of_them for one in list(named.values())), True)


def _frames_from(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _may_be_read(code: CodeType) -> bool:
    """Before Python 3.13 a function has one dict of its variables, which must not change where it has asked for that itself
    or a debugger has."""
    of_a_function = code.co_flags & inspect.CO_OPTIMIZED and code.co_flags & inspect.CO_NEWLOCALS
    return bool(of_a_function) and sys.gettrace() is None and not (_SHOWING & {*code.co_names} and _asks_itself(code))


@functools.cache
def _asks_itself(code: CodeType) -> bool:
    """Whether a function uses `eval`, say, and not just a method of this name: `model.eval()`."""
    return any(one.opname in ("LOAD_GLOBAL", "LOAD_NAME") and one.argval in _SHOWING for one in dis.get_instructions(code))


def _own_attributes(value: Any) -> dict[str, Any]:
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return attributes if type(attributes) is dict else {}


def _parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    """What may hold a table: attributes of the program's objects, and of those that read data; what functions hold; few
    entries, as of a dict of loaders."""
    kind = type(value)
    if issubclass(kind, dict):
        yield from ((f"[{key!r}]", one) for key, one in islice(dict.items(value), MOST_ENTRIES) if type(key) in (str, int))
    elif kind in (list, tuple):
        yield from ((f"[{place}]", one) for place, one in enumerate(value[:MOST_ENTRIES]))
    elif issubclass(kind, MethodType):
        yield "", value.__self__
    elif issubclass(kind, functools.partial):
        yield from ((f".{name}", one) for name, one in value.keywords.items())
        yield from ((f"[{place}]", one) for place, one in enumerate(value.args))
        yield "", value.func
    elif issubclass(kind, FunctionType):
        yield from _held_by(value)
    elif issubclass(kind, (Dataset, dataloader.DataLoader, Sampler)) or _is_own(kind):
        yield from _attributes_of(value)


def _held_by(function: FunctionType) -> Iterator[tuple[str, Any]]:
    if not is_of_the_program(function.__code__.co_filename):
        return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        if cell != CellType():  # Else it is empty yet.
            yield f".{name}", cell.cell_contents


def _attributes_of(value: Any) -> Iterator[tuple[str, Any]]:
    hidden = issubclass(type(value), torch.nn.Module)  # PyTorch's own are parameters and modules.
    size = _size_of(value)
    for name, one in list(_own_attributes(value).items()):
        # A list with an entry per sample is not a table: it is what the data set holds.
        per_sample = type(one) in (list, tuple) and len(one) == size
        if not (per_sample or (hidden and name.startswith("_"))):
            yield f".{name}", one


def _size_of(value: Any) -> int:
    if not issubclass(type(value), Dataset):
        return -1
    try:
        return len(value)  # type: ignore[arg-type]
    except Exception:  # It is the program's own.
        return -1


def _is_own(kind: type) -> bool:
    return _is_of_the_program(sys.modules.get(kind.__module__))


def _asks(value: Any) -> bool:
    """Whether a function, or a method of an object's class, asks for places in lists."""
    if type(value) is FunctionType:
        return _asks_for_places(value.__code__)
    return _is_own(type(value)) and any(map(_asks_for_places, _methods_of(type(value))))


def _codes_in(variables: Mapping[str, Any]) -> Iterator[CodeType]:
    """Of a module's functions, and of its classes' methods."""
    for value in list(variables.values()):
        if type(value) is FunctionType:
            yield value.__code__
        elif issubclass(type(value), type) and _is_own(value):
            yield from _methods_of(value)


def _methods_of(kind: type) -> Iterator[CodeType]:
    return (one.__code__ for one in list(vars(kind).values()) if type(one) is FunctionType)


def _asks_for_places(code: CodeType) -> bool:
    """Whether it, or a function inside it, says `words.index(word)`."""
    return "index" in code.co_names or any(map(_asks_for_places, (one for one in code.co_consts if isinstance(one, CodeType))))
