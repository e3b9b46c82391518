"""Translation units of the build, packed so that the linter parses their common headers once.

         unit 1          unit 2          unit 3            a build's units: up to 16 files each
      +----------+    +----------+    +----------+
      | headers  |    | headers  |    | headers  |         over half of the linter's time
      | a.cc b.cc|    | c.cc     |    | d.cc e.cc|
      +----------+    +----------+    +----------+
            \\_______________|_______________/
                      +------------+
                      |  headers   |                       one pack
                      | a b c d e  |
                      +------------+

A pack is clean if and only if the linter finds nothing in it. Where it finds something, its halves are analysed,
down to single units, so what is reported does not depend on how they were packed. (Except for what clang says only
of the file that it is given, such as an unused function: GCC says that of all files of a unit, and stops the build.)

Units share a pack if they are compiled with the same flags and judged by the same rules, if no macro has two values,
and if no name that one defines for itself is defined or included by the other: each keeps its own in unnamed
namespaces, which are one in a pack. That is read off the text. A clash that the text does not show makes the pack
fail to compile, which costs its time and nothing else.
"""

import functools
import re

MOST_FILES = 40

# Sources are formatted, so what is declared for a whole file starts in the first column.
TYPES = [re.compile(pattern, re.MULTILINE) for pattern in (
    r"^(?:struct|class|enum(?: class)?|union) (?:alignas\([^)]*\) )?(\w+)(?![\w:])",
    r"^using (\w+) =",
    r"^#define (\w+)",
)]
FUNCTIONS = [re.compile(pattern, re.MULTILINE) for pattern in (
    r"^[A-Za-z_][\w:<>,&*\s\[\]]*?[\s&*](\w+)\(",
    r"^(?:static |inline |constexpr |const |constinit )+[\w:<>,&*\s]*?[\s&*](\w+)(?: =|\{|\[|;)",
    r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST|RC_GTEST_PROP)\((\w+)",
)]

# What differs between the commands of units and can be united: folders of headers, and macros.
FOLDER = re.compile(r" (?:-I ?|-isystem )\S+")
MACRO = re.compile(r" -D([^\s=]+)(=\S+)?")
# What they may differ in, as it is nothing to the linter: where they lie, how their code is optimised and linked.
NOT_LINTED = re.compile(r" -(?:o|c|MF|MT) \S+| -MD| -[Of]\S+")


@functools.cache  # A header is read for hundreds of units.
def found(patterns, path):
    text = path.read_text().replace("BENCHMARK_MAIN(", "int main(")
    return frozenset(name for pattern in patterns for name in pattern.findall(text))


def in_all(patterns, paths):
    """The names that files declare for all of themselves."""
    return frozenset().union(*(found(tuple(patterns), path) for path in paths))


class Names:
    """Those that units define, and those of the headers that they include."""

    def __init__(self, files=(), headers=()):
        types, functions = in_all(TYPES, files), in_all(FUNCTIONS, files)
        self.included = in_all(TYPES, headers) | in_all(FUNCTIONS, headers)
        self.defined = types | functions
        # What a header promises is defined by one unit, and harms none that includes the header.
        self.own = types | (functions - self.included)

    def clash_with(self, other):
        return self.defined & other.defined or self.own & other.included or other.own & self.included

    def add(self, other):
        for kind, names in vars(other).items():
            setattr(self, kind, getattr(self, kind) | names)


def judged_by(unit, rules):
    """What all units of a pack have in common."""
    flags = unit.command
    for pattern in (FOLDER, MACRO, NOT_LINTED):
        flags = pattern.sub("", flags)
    return flags, rules


class Pack:
    """Units that are analysed as one."""

    def __init__(self, common):
        self.units = []
        self._common = common
        self._names = Names()
        self._macros = {}

    def take(self, unit, common, names):
        """Whether the unit is now in the pack."""
        macros = dict(MACRO.findall(unit.command))
        if common != self._common or names.clash_with(self._names) or any(
                self._macros.get(name, value) != value for name, value in macros.items()):
            return False
        if self.units and self.files() + len(unit.files) > MOST_FILES:
            return False
        self.units.append(unit)
        self._names.add(names)
        self._macros |= macros
        return True

    def files(self):
        return sum(len(unit.files) for unit in self.units)

    def text(self):
        """The pack as a source."""
        return "".join(f'#include "{path}"\n' for unit in self.units for path in unit.files)

    def halves(self):
        """Two packs of this one's units."""
        middle = len(self.units) // 2
        return self._of(self.units[:middle]), self._of(self.units[middle:])

    def _of(self, units):
        part = Pack(self._common)
        for unit in units:
            part.take(unit, self._common, Names())
        return part

    def entry(self, source):
        """How that source is compiled: as the first unit, with the folders and macros of all."""
        first = self.units[0]
        command = MACRO.sub("", FOLDER.sub("", first.command)).replace(str(first.source), str(source))
        compiler, _, flags = command.partition(" ")
        folders = dict.fromkeys(folder for unit in self.units for folder in FOLDER.findall(unit.command))
        macros = [f" -D{name}{value}" for name, value in self._macros.items()]
        united = "".join([*folders, *macros])
        return first.entry | {"file": str(source), "command": f"{compiler}{united} {flags}"}


def packs_of(units, rules_of, headers_of):
    """All units in packs, neighbours together, the packs with most files first. `rules_of(unit)` is what the
    linter judges it by, beside its command; `headers_of(unit)`, the headers of ours that it includes."""
    packs = []
    for unit in units:
        common = judged_by(unit, rules_of(unit))
        names = Names(unit.files, headers_of(unit))
        if not any(pack.take(unit, common, names) for pack in packs):
            packs.append(Pack(common))
            packs[-1].take(unit, common, names)
    return sorted(packs, key=lambda pack: -pack.files())
