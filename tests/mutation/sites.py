"""Where a source file can be broken by one small change, found in its syntax tree.

A site is a piece of text and what it becomes. Only what runs counts: bodies of functions, without
constant expressions, without what comes from a macro.
"""
from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from clang.cindex import Cursor, CursorKind, Index, TranslationUnit, TypeKind


class Operator(Enum):
    """Kinds of defects; the value is what a report calls it."""

    COMPARISON = "comparison"  # a bound moved by one, or an equality turned around
    CONNECTIVE = "connective"  # and for or
    CONDITION = "condition"  # an if that takes the other branch
    ARITHMETIC = "arithmetic"  # plus for minus
    NUMBER = "number"  # a literal one larger
    TRUTH = "truth"  # true for false
    REMOVAL = "removal"  # a statement that is not there: a reset, a call, an assignment
    FIELD = "field"  # a field of an aggregate that keeps its default
    SWAP = "swap"  # two arguments of one type in the other order


@dataclass(frozen=True)
class Site:
    """Text [begin, end) of `file` (bytes), which becomes `after`."""

    file: str  # Relative to the tree.
    line: int
    begin: int
    end: int
    operator: Operator
    before: str
    after: str
    is_statement: bool = False
    nth: int = 1  # Of those that would have the same name.

    def name(self) -> str:
        """Says which it is, whatever else changes in the file."""
        which = f" (no. {self.nth})" if self.nth > 1 else ""
        return f"{self.file}: {self.operator.value}: {_short(self.before)} -> {_short(self.after)}{which}"


_SWITCHED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||",
             "||": "&&", "+": "-", "-": "+", "+=": "-=", "-=": "+="}
_KIND = {**dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), Operator.COMPARISON),
         **dict.fromkeys(("&&", "||"), Operator.CONNECTIVE),
         **dict.fromkeys(("+", "-", "+=", "-="), Operator.ARITHMETIC)}
_FUNCTIONS = (CursorKind.FUNCTION_DECL, CursorKind.CXX_METHOD, CursorKind.CONSTRUCTOR,
              CursorKind.DESTRUCTOR, CursorKind.FUNCTION_TEMPLATE, CursorKind.CONVERSION_FUNCTION)
_STATEMENTS = (CursorKind.CALL_EXPR, CursorKind.BINARY_OPERATOR, CursorKind.UNARY_OPERATOR,
               CursorKind.COMPOUND_ASSIGNMENT_OPERATOR)
# What a name alone has below it are arguments of a template.
_NOT_RUN = (CursorKind.STATIC_ASSERT, CursorKind.ENUM_DECL, CursorKind.TYPE_REF,
            CursorKind.TEMPLATE_REF, CursorKind.DECL_REF_EXPR)
_POINTERS = (TypeKind.POINTER, TypeKind.MEMBERPOINTER, TypeKind.NULLPTR)


_INCLUDED = re.compile(r'^#include "(.+)"$', re.M)


@dataclass(frozen=True)
class Unit:
    """What a compiler is given: a file, which may include several of the sources, and how it reads it."""

    file: Path
    flags: tuple[str, ...]


def units_of(build: Path) -> dict[Path, Unit]:
    """The unit of each source that a configured build compiles."""
    units = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        unit = Unit(Path(entry["file"]), tuple(_parser_flags(shlex.split(entry["command"]), Path(entry["directory"]))))
        is_list = "Unity" in unit.file.parts
        for file in _INCLUDED.findall(unit.file.read_text()) if is_list else [str(unit.file)]:
            units[Path(file)] = unit
    return units


def _parser_flags(words: list[str], folder: Path) -> list[str]:
    flags = ["-std=c++20", "-ferror-limit=0", "-w"]
    at = 1
    while at < len(words):
        word = words[at]
        if word in ("-I", "-isystem", "-imultilib"):
            if word != "-imultilib":
                flags += [word, str(folder / words[at + 1])]
            at += 1
        elif word.startswith("-I"):
            flags.append("-I" + str(folder / word[2:]))
        elif word.startswith("-D"):
            flags.append(word)
        at += 1
    return flags


def sites_of(tree: Path, files: list[str], unit: Unit) -> dict[str, list[Site]]:
    """All sites of files of one unit, in the order of the text.

    Raises:
        ValueError: the parser does not understand the unit, so that sites would be missing.
    """
    parsed = Index.create().parse(str(unit.file), args=["-x", "c++", *unit.flags],
                                  options=TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD)
    fatal = [str(one) for one in parsed.diagnostics if one.severity >= 3]
    if fatal:
        raise ValueError(f"{unit.file}: {fatal[0]}")
    return {file: _sites_here(_Reader(file, tree / file, parsed)) for file in files}


def _sites_here(reader: _Reader) -> list[Site]:
    found = {(site.begin, site.end, site.after): site for site in reader.read()}
    seen: Counter[str] = Counter()
    sites = []
    for site in sorted(found.values(), key=lambda site: (site.begin, site.end, site.after)):
        seen[site.name()] += 1
        sites.append(replace(site, nth=seen[site.name()]))
    return sites


class _Reader:
    def __init__(self, file: str, path: Path, unit: TranslationUnit) -> None:
        self._file = file
        self._path = str(path)
        self._text = path.read_bytes()
        self._unit = unit
        self._macros = [(c.extent.start.offset, c.extent.end.offset)
                        for c in unit.cursor.get_children()
                        if c.kind == CursorKind.MACRO_INSTANTIATION and self._is_here(c)]

    def read(self) -> Iterator[Site]:
        for cursor in self._unit.cursor.get_children():
            if self._is_here(cursor):
                yield from self._outside(cursor)

    def _is_here(self, cursor: Cursor) -> bool:
        return cursor.location.file is not None and cursor.location.file.name == self._path

    def _slice(self, cursor: Cursor) -> str:
        return self._between(cursor.extent.start.offset, cursor.extent.end.offset)

    def _between(self, begin: int, end: int) -> str:
        return self._text[begin:end].decode()

    def _is_plain(self, begin: int, end: int) -> bool:
        """No macro has a part in it."""
        return begin < end and all(end <= first or last <= begin for first, last in self._macros)

    def _outside(self, cursor: Cursor) -> Iterator[Site]:
        if cursor.kind in _FUNCTIONS and cursor.is_definition():
            body = [c for c in cursor.get_children() if c.kind == CursorKind.COMPOUND_STMT]
            head = self._between(cursor.extent.start.offset,
                                 body[0].extent.start.offset) if body else "constexpr"
            if not {"constexpr", "consteval"} & set(head.replace("(", " ").split()):
                yield from self._inside(body[0])
            return
        for child in cursor.get_children():
            yield from self._outside(child)

    def _inside(self, cursor: Cursor) -> Iterator[Site]:
        if cursor.kind in _NOT_RUN or self._is_constant(cursor):
            return
        yield from self._at(cursor)
        children = list(cursor.get_children())
        if cursor.kind == CursorKind.CASE_STMT:
            children = children[1:]  # The value is a constant.
        for child in children:
            yield from self._inside(child)

    def _is_constant(self, cursor: Cursor) -> bool:
        words = self._slice(cursor)[:60].split()
        if cursor.kind == CursorKind.IF_STMT:
            return words[:2] == ["if", "constexpr"]
        return cursor.kind == CursorKind.DECL_STMT and "constexpr" in words[:2]

    def _at(self, cursor: Cursor) -> Iterator[Site]:
        kind = cursor.kind
        children = list(cursor.get_children())
        if kind in (CursorKind.BINARY_OPERATOR, CursorKind.COMPOUND_ASSIGNMENT_OPERATOR):
            yield from self._switched(cursor, children)
        elif kind == CursorKind.CALL_EXPR:
            yield from self._call(cursor, children)
        elif kind == CursorKind.CXX_BOOL_LITERAL_EXPR:
            text = self._slice(cursor)
            yield from self._site(cursor, Operator.TRUTH, {"true": "false"}.get(text, "true"))
        elif kind == CursorKind.INTEGER_LITERAL:
            yield from self._number(cursor)
        elif kind == CursorKind.IF_STMT and children and children[0].kind != CursorKind.DECL_STMT:
            text = self._slice(children[0])
            if "=" not in text.replace("==", "").replace("!=", "").replace("<=", "").replace(
                    ">=", ""):
                yield from self._site(children[0], Operator.CONDITION, f"!({text})")
        elif kind == CursorKind.COMPOUND_STMT:
            for child in children:
                yield from self._removal(child)
        elif kind == CursorKind.INIT_LIST_EXPR:
            for child in children:
                yield from self._field(child)

    def _site(self, cursor: Cursor, operator: Operator, after: str,
              is_statement: bool = False) -> Iterator[Site]:
        begin, end = cursor.extent.start.offset, cursor.extent.end.offset
        if self._is_plain(begin, end) and cursor.extent.start.file.name == self._path:
            yield Site(self._file, cursor.extent.start.line, begin, end, operator,
                       self._between(begin, end), after, is_statement)

    def _switched(self, cursor: Cursor, children: list[Cursor]) -> Iterator[Site]:
        """The same operands with another sign between them."""
        if len(children) != 2:
            return
        left, right = children
        begin, end = left.extent.end.offset, right.extent.start.offset
        sign = self._between(begin, end).strip()
        if sign not in _SWITCHED:
            return
        points = any(c.type.get_canonical().kind in _POINTERS for c in children)
        if _KIND[sign] is Operator.ARITHMETIC and points:
            return
        after = f"{self._slice(left)} {_SWITCHED[sign]} {self._slice(right)}"
        yield from self._site(cursor, _KIND[sign], after)

    def _call(self, cursor: Cursor, children: list[Cursor]) -> Iterator[Site]:
        if cursor.spelling.startswith("operator"):
            sign = cursor.spelling.removeprefix("operator")
            if len(children) == 3 and _KIND.get(sign) is Operator.COMPARISON:
                text = self._slice(cursor)
                if text.count(sign) == 1:
                    yield from self._site(cursor, Operator.COMPARISON,
                                          text.replace(sign, _SWITCHED[sign]))
            return
        arguments = list(cursor.get_arguments())
        for first, second in zip(arguments, arguments[1:]):
            yield from self._swap(cursor, first, second)

    def _swap(self, call: Cursor, first: Cursor, second: Cursor) -> Iterator[Site]:
        kinds = {c.type.get_canonical().spelling for c in (first, second)}
        texts = self._slice(first), self._slice(second)
        ends = any(text.endswith(("begin()", "end()")) for text in texts)
        if len(kinds) != 1 or texts[0] == texts[1] or not all(texts) or ends:
            return
        begin, end = call.extent.start.offset, call.extent.end.offset
        a, b = first.extent, second.extent
        if not begin <= a.start.offset < a.end.offset <= b.start.offset < b.end.offset <= end:
            return
        after = (self._between(begin, a.start.offset) + texts[1] +
                 self._between(a.end.offset, b.start.offset) + texts[0] +
                 self._between(b.end.offset, end))
        yield from self._site(call, Operator.SWAP, after)

    def _number(self, cursor: Cursor) -> Iterator[Site]:
        text = self._slice(cursor)
        digits = text.rstrip("uUlLzZ").replace("'", "")
        if digits.isdigit() and (digits == "0" or not digits.startswith("0")):
            after = str(int(digits) + 1) + text[len(text.rstrip("uUlLzZ")):]
            yield from self._site(cursor, Operator.NUMBER, after)

    def _removal(self, statement: Cursor) -> Iterator[Site]:
        inner = statement
        while inner.kind == CursorKind.UNEXPOSED_EXPR:  # Clean-ups and conversions around it.
            children = list(inner.get_children())
            if len(children) != 1:
                break
            inner = children[0]
        if inner.kind in _STATEMENTS:
            yield from self._site(statement, Operator.REMOVAL, "", is_statement=True)

    def _field(self, part: Cursor) -> Iterator[Site]:
        """`.name = value` with the value that it would have without."""
        children = list(part.get_children())
        if len(children) != 2 or children[0].kind != CursorKind.MEMBER_REF:
            return
        value = children[1]
        own = self._slice(value)
        if not own.startswith("{"):
            yield from self._site(value, Operator.FIELD, f"std::remove_cvref_t<decltype({own})>{{}}")


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 70 else words[:67] + "..."
