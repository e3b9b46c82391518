#!/usr/bin/env python3
"""The rooms of this tree: what their CMakeLists.txt declare, held against what their files include.

  rooms.py check BUILD      says what does not agree; exit code 1 if anything does
  rooms.py update BUILD     rewrites the table and the picture of docs/architecture.md

BUILD is a configured build folder: CMake leaves the declarations there, in rooms.json.
"""
import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = "docs/architecture.md"
CODE = (".h", ".cc", ".cu", ".cuh", ".in")
HEADERS = (".h", ".cuh")
UMBRELLA = "include/lockstep/lockstep.h"
MOST_CONCEPTS = 12
FRONT_DOOR = "include/lockstep/"

# What each floor may use besides itself. src is what a rank does; sim, real and gpu are where it runs;
# harness is what you ask about it; python is the door for PyTorch jobs.
FLOORS = {
    "src": (),
    "sim": ("src",),
    "real": ("src",),
    "gpu": ("src", "real"),
    "harness": ("src", "sim", "real", "gpu"),
    "python": ("src", "sim", "gpu"),
}


# Packages whose headers lie where no compiler looks by itself, but on a system that has them installed: what a room
# links by the first part of what it includes.
PACKAGES = {"fmt": ("fmt::fmt",), "Eigen": ("Eigen3::Eigen",), "nlohmann": ("nlohmann_json::nlohmann_json",),
            "toml++": ("tomlplusplus::tomlplusplus",), "CLI": ("CLI11::CLI11",), "gloo": ("gloo",),
            "boost": ("Boost::headers", "Boost::fiber")}


@dataclass
class Room:
    name: str  # As DEPS names it: "tensor", "sim/fiber".
    folder: str
    about: str = ""
    deps: list = field(default_factory=list)
    private_deps: list = field(default_factory=list)
    links: list = field(default_factory=list)  # Libraries of others.
    private_links: list = field(default_factory=list)
    front_door: list = field(default_factory=list)  # Headers of include/lockstep it implements.
    built: bool = True

    @property
    def floor(self):
        return self.folder.split("/")[0]


def declared(build):
    return [Room(**row) for row in json.loads((Path(build) / "rooms.json").read_text())]


def read_tree(root):
    """The text of every file with code on any floor, by path."""
    places = [root / floor for floor in FLOORS] + [root / FRONT_DOOR]
    return {path.relative_to(root).as_posix(): path.read_text()
            for place in places for path in sorted(place.rglob("*")) if path.suffix in CODE}


class Tree:
    """Which room a file belongs to, and which rooms its includes reach."""

    INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]lockstep/([^">]+)[">]', re.MULTILINE)

    def __init__(self, rooms, files):
        self.rooms, self.files = rooms, files
        self._deepest_first = sorted(rooms, key=lambda room: -len(room.folder))

    def room_of(self, path):
        if path.startswith(FRONT_DOOR):
            name = path.removeprefix(FRONT_DOOR)
            return next((room for room in self.rooms if name in room.front_door), None)
        return next((room for room in self._deepest_first
                     if path.startswith(room.folder + "/")), None)

    def target(self, include):
        places = (f"src/{include}", include, FRONT_DOOR + include)
        return next((path for path in places if path in self.files), None)

    def includes(self):
        """(file, line, what it includes, the file that is, or None)"""
        for path, text in self.files.items():
            for found in self.INCLUDE.finditer(text):
                line = text.count("\n", 0, found.start()) + 1
                yield path, line, found[1], self.target(found[1])

    def edges(self):
        """(room, used room, whether a header uses it, where), where the rooms differ."""
        for path, line, _, target in self.includes():
            user, used = self.room_of(path), target and self.room_of(target)
            if user and used and user is not used:
                public = path.endswith(HEADERS) and "/detail/" not in path
                yield user, used, public, f"{path}:{line}"


def homeless(tree):
    for path in tree.files:
        if tree.room_of(path) is None and not path.startswith(FRONT_DOOR):
            yield f"{path}: lies in no room; declare one with lockstep_room"


def lost_includes(tree):
    for path, line, include, target in tree.includes():
        if target is None:
            yield f"{path}:{line}: there is no lockstep/{include}"


def unnamed(tree):
    """Includes of rooms that the including room does not name where it should."""
    said = set()
    for user, used, public, where in tree.edges():
        named = user.deps if public else user.deps + user.private_deps
        if used.name in named or (user.name, used.name, public) in said:
            continue
        said.add((user.name, used.name, public))
        key = "DEPS" if public else "PRIVATE_DEPS"
        yield f"{where}: includes {used.name}, which {user.name} does not name in {key}"


def unlinked(tree):
    """Includes of packages that the including room does not link: they compile only where the system has them."""
    include = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([^/>]+)/", re.MULTILINE)
    for path, text in tree.files.items():
        room = tree.room_of(path)
        for package in sorted(set(include.findall(text)) & set(PACKAGES)) if room else []:
            public = path.endswith(HEADERS) and "/detail/" not in path
            if not set(PACKAGES[package]) & set(room.links + ([] if public else room.private_links)):
                key = "LINKS" if public else "PRIVATE_LINKS"
                yield f"{path}: includes {package}, and {room.name} does not name {PACKAGES[package][0]} in {key}"


def unused(tree):
    public = {(user.name, used.name) for user, used, by_header, _ in tree.edges() if by_header}
    private = {(user.name, used.name) for user, used, by_header, _ in tree.edges() if not by_header}
    for room in tree.rooms:
        for dep in room.deps:
            if (room.name, dep) not in public:
                hint = "; PRIVATE_DEPS is enough" if (room.name, dep) in private else ""
                yield f"{room.folder}: no header of it includes {dep}, which it names in DEPS{hint}"
        for dep in room.private_deps:
            if (room.name, dep) not in private:
                yield f"{room.folder}: nothing in it includes {dep}, which it names in PRIVATE_DEPS"
            if dep in room.deps:
                yield f"{room.folder}: names {dep} twice"


def against_directions(tree):
    for user, used, _, where in tree.edges():
        if used.floor != user.floor and used.floor not in FLOORS[user.floor]:
            yield f"{where}: {user.floor} may not use {used.floor}, and it includes {used.name}"


def cycles(tree):
    uses = {room.name: set() for room in tree.rooms}
    for user, used, _, _ in tree.edges():
        uses[user.name].add(used.name)

    def reach(start):
        seen, todo = set(), [start]
        while todo:
            for name in uses[todo.pop()] - seen:
                seen.add(name)
                todo.append(name)
        return seen

    reached = {name: reach(name) for name in uses}
    for name in uses:
        if name in reached[name]:
            others = sorted(other for other in reached[name] if name in reached[other])
            yield f"{name}: is part of a cycle of rooms: {', '.join(others)}"


def crowded(tree):
    """Folders with more concepts than a reader keeps in mind: a concept is what has a header. UMBRELLA has none of its
    own: it includes another."""
    n_headers = {}
    for path in tree.files:
        if path.endswith(HEADERS) and path != UMBRELLA:
            folder = path.rsplit("/", 1)[0]
            n_headers[folder] = n_headers.get(folder, 0) + 1
    for folder, n in n_headers.items():
        if n > MOST_CONCEPTS:
            yield f"{folder}: {n} concepts; above {MOST_CONCEPTS} there is a second room in it"


def unlinted(lint_rules):
    """Floors whose headers the linter passes by. `lint_rules`: the text of .clang-tidy, and of those
    that floors have of their own."""
    found = re.findall(r"^HeaderFilterRegex: '/\((.*)\)/'$", lint_rules, re.MULTILINE)
    linted = [floor for floors in found for floor in floors.split("|")]
    for floor in ("include", *FLOORS):
        if floor not in linted:
            yield f".clang-tidy: HeaderFilterRegex does not name {floor}"


# --- the page ------------------------------------------------------------------------------------


def table(tree):
    rows = ["| room | what it holds | may use |", "|---|---|---|"]
    for room in tree.rooms:
        used = ", ".join(f"`{name}`" for name in sorted(set(room.deps + room.private_deps),
                                                        key=[r.name for r in tree.rooms].index))
        rows.append(f"| `{room.folder}` | {room.about} | {used or 'nothing of ours'} |")
    return "\n".join(rows)


def picture(tree):
    """Mermaid: floors as boxes, the arrows between them with their number of includes, and in each
    floor the arrows between its rooms that no other arrow implies."""
    between, within = {}, {}
    for user, used, _, _ in tree.edges():
        if user.floor == used.floor:
            within.setdefault(user.name, set()).add(used.name)
        else:
            pair = (user.floor, used.floor)
            between[pair] = between.get(pair, 0) + 1
    ident = {room.name: re.sub(r"\W", "_", room.name) for room in tree.rooms}
    lines = ["```mermaid", "flowchart BT"]
    for floor in FLOORS:
        lines.append(f"  subgraph {floor}_")
        for room in tree.rooms:
            if room.floor == floor:
                short = room.folder.removeprefix(floor + "/")
                lines.append(f'    {ident[room.name]}["{short}"]')
        lines.append("  end")
    for room in tree.rooms:
        for name in sorted(needed(room.name, within)):
            lines.append(f"  {ident[room.name]} --> {ident[name]}")
    for (user, used), n in sorted(between.items()):
        lines.append(f'  {user}_ == "{n} includes" ==> {used}_')
    return "\n".join(lines + ["```"])


def needed(name, uses):
    """What `name` uses and reaches through nothing else that it uses."""
    implied, todo = set(), [*uses.get(name, ())]
    while todo:
        more = uses.get(todo.pop(), set()) - implied
        implied |= more
        todo += more
    return uses.get(name, set()) - implied


def with_parts(page, parts):
    """The page with the text between `<!-- NAME: ... -->` and `<!-- end of NAME -->` replaced."""
    for name, text in parts.items():
        pattern = re.compile(rf"(<!-- {name}: [^\n]*-->\n).*?(\n<!-- end of {name} -->)", re.DOTALL)
        if not pattern.search(page):
            raise ValueError(f"{PAGE} has no place for its {name}")
        page = pattern.sub(lambda found, text=text: found[1] + text + found[2], page)
    return page


def page_parts(tree):
    return {"rooms": table(tree), "picture": picture(tree)}


def stale(tree, page):
    if with_parts(page, page_parts(tree)) != page:
        yield f"{PAGE}: the table or the picture is not what rooms.py update writes"


CHECKS = (homeless, lost_includes, unnamed, unlinked, unused, against_directions, cycles, crowded)


def complaints(tree, page, lint_rules):
    found = [line for check in CHECKS for line in check(tree)]
    return found + [*unlinted(lint_rules), *stale(tree, page)]


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("check", "update"):
        sys.exit(__doc__)
    tree = Tree(declared(sys.argv[2]), read_tree(ROOT))
    page = ROOT / PAGE
    if sys.argv[1] == "update":
        page.write_text(with_parts(page.read_text(), page_parts(tree)))
        return 0
    places = [ROOT, *(ROOT / floor for floor in FLOORS)]
    rules = "\n".join((place / ".clang-tidy").read_text() for place in places
                      if (place / ".clang-tidy").is_file())
    found = complaints(tree, page.read_text(), rules)
    print("\n".join(found) or f"rooms: {len(tree.rooms)} rooms, {len(tree.files)} files, all as declared")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
