"""Numbers of the environment that a script compares as texts: `os.environ["LOCAL_RANK"] == 0` is never true, and no
rank logs or saves. Nothing that a job does shows it, so the script is read.

Only what cannot be meant is named: a place of a rank, read from the environment and not converted, that is compared
with a whole number, directly or by a name that nothing else is ever assigned to.
"""
from __future__ import annotations

import ast
import os
from typing import NamedTuple

from lockstep.terminal import warn

PLACES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK")


class Compared(NamedTuple):
    line: int
    variable: str
    number: int

    def sentence(self, file: str) -> str:
        return (f"{file}:{self.line}: {self.variable} is a text from the environment, which never equals the number "
                f"{self.number}; compare int(os.environ[\"{self.variable}\"])")


def compared(source: str) -> list[Compared]:
    """In the order of lines; nothing for a source that Python cannot read."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    found: list[Compared] = []
    _look(tree, {}, found)
    return sorted(found)


def say(words: list[str]) -> None:
    """Names on stderr what the scripts among the words of a command line compare."""
    for word in words:
        if not word.endswith(".py") or not os.path.isfile(word):  # A pipe would be waited for.
            continue
        try:
            with open(word, encoding="utf-8") as file:
                source = file.read()
        except (OSError, UnicodeDecodeError):
            continue
        for one in compared(source):
            warn(f"lockstep: {one.sentence(word)}")


def _scope(tree: ast.AST) -> list[ast.AST]:
    """All nodes below `tree` but those of the functions and classes in it, which are there themselves."""
    nodes: list[ast.AST] = []
    waiting = list(ast.iter_child_nodes(tree))
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)
    return nodes


def _look(tree: ast.AST, outer: dict[str, str], found: list[Compared]) -> None:
    nodes = _scope(tree)
    names = {name: variable for name, variable in outer.items() if name not in _bound(tree, nodes)}
    names.update(_texts(tree, nodes))
    for node in nodes:
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            for text, number in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
                variable = names.get(text.id, "") if isinstance(text, ast.Name) else _variable(text)
                value = _whole(number)
                if variable and value is not None:
                    found.append(Compared(node.lineno, variable, value))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            _look(node, names, found)


def _bound(tree: ast.AST, nodes: list[ast.AST]) -> list[str]:
    """Names that this scope gives values, each as often as it does."""
    names = [node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)]
    for node in nodes:
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            names += 2 * node.names  # Others assign, too.
    if isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        given = tree.args
        names += [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg) if one]
    return names


def _texts(tree: ast.AST, nodes: list[ast.AST]) -> dict[str, str]:
    """Names of this scope that hold such a text and nothing else."""
    bound = _bound(tree, nodes)
    texts = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name, variable = node.targets[0].id, _variable(node.value)
            if variable and bound.count(name) == 1:
                texts[name] = variable
    return texts


def _variable(node: ast.AST) -> str:
    """The place that `os.environ["X"]`, `os.environ.get("X")` or `os.getenv("X")` reads as a text, or nothing.

    With a default of another type it may be either.
    """
    if isinstance(node, ast.Subscript) and _is(node.value, "environ"):
        return _place(node.slice)
    if not isinstance(node, ast.Call) or node.keywords or not 1 <= len(node.args) <= 2:
        return ""
    if len(node.args) == 2 and not (isinstance(node.args[1], ast.Constant) and isinstance(node.args[1].value, str)):
        return ""
    reads = _is(node.func, "getenv") or (isinstance(node.func, ast.Attribute) and node.func.attr == "get"
                                         and _is(node.func.value, "environ"))
    return _place(node.args[0]) if reads else ""


def _is(node: ast.AST, name: str) -> bool:
    """`os.NAME`, or NAME imported from os."""
    if isinstance(node, ast.Attribute):
        return node.attr == name and isinstance(node.value, ast.Name) and node.value.id == "os"
    return isinstance(node, ast.Name) and node.id == name


def _place(node: ast.AST) -> str:
    named = isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in PLACES
    return str(node.value) if isinstance(node, ast.Constant) and named else ""


def _whole(node: ast.AST) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _whole(node.operand)
        return None if value is None else -value
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None
