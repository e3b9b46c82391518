#!/usr/bin/env python3
"""Units that the linter analyses together: which may, and what is said of them."""
import contextlib
import io
import json
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import lint
import packs

FLAGS = "/usr/bin/c++ -I{room} -D{macro} -O2 -Wall -o {name}.o -c {source}"
# Finds something in every source that holds BAD, and in what several of a pack define.
LINTER = """#!/usr/bin/env python3
import json, pathlib, re, sys
database, source = pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4])
entries = json.loads((database / "compile_commands.json").read_text())
command = next(entry["command"] for entry in entries if entry["file"] == str(source))
text = source.read_text()
for path in re.findall('#include "(/.*)"', text):
    text += pathlib.Path(path).read_text()
with open(pathlib.Path(sys.argv[0]).parent / "calls", "a") as calls:
    calls.write(json.dumps([str(source), command]) + "\\n")
names = re.findall(r"hidden_\\w+", text)
if "SILENT" in text:
    sys.exit(3)
if "BAD" in text or len(names) != len(set(names)):
    sys.exit(f"found in {source.name}")
"""


class PacksTest(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.root = Path(held.name).resolve()
        self.build = self.root / "build"
        (self.build / "lint").mkdir(parents=True)
        (self.root / ".clang-tidy").write_text("Checks: '*'\n")
        program = self.root / "linter"
        program.write_text(LINTER)
        program.chmod(0o755)
        patch = mock.patch.object(lint, "ROOT", self.root)
        patch.start()
        self.addCleanup(patch.stop)
        self.linter = lint.Linter(program, self.build)
        self.units = []

    def unit(self, name, text, room="rooms/a", macro="A=1", flags=FLAGS):
        source = self.root / name
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
        command = flags.format(room=room, macro=macro, name=name, source=source)
        self.units.append(lint.Unit({"file": str(source), "directory": str(self.root), "command": command}, self.build))
        (self.build / "lint" / "compile_commands.json").write_text(json.dumps([unit.entry for unit in self.units]))

    def packs(self):
        packs.found.cache_clear()  # Files of one name hold one thing and another here.
        return packs.packs_of(self.units, lint.rule_folders, lint.Keys(self.build).headers)

    def packed(self):
        return [[str(unit.name()) for unit in pack.units] for pack in self.packs()]

    def calls(self):
        return [json.loads(line) for line in (self.root / "calls").read_text().splitlines()]

    def test_units_with_the_same_flags_and_rules_share_a_pack(self):
        self.unit("a.cc", "int one() {\n}\n")
        self.unit("b.cc", "int two() {\n}\n", room="rooms/b", macro="B=2", flags=FLAGS.replace("-O2", "-O3 -fPIC"))
        self.assertEqual(self.packed(), [["a.cc", "b.cc"]])

    def test_what_stands_in_the_way_of_a_pack_keeps_units_apart(self):
        names = {
            "a function": "int one(int x) {\n}\n", "a class": "struct one {\n", "an enum": "enum class one {\n",
            "an alias": "using one = int;\n", "a macro": "#define one 1\n", "a constant": "constexpr int one = 1;\n",
            "a template": "template <class T>\nT one(T x) {\n", "a table": "const std::array<int, 2> one{{1, 2}};\n",
            "a suite": "TEST(one, Counts) {\n",
        }
        self.unit("a.cc", "int main() {\n}\n")
        self.unit("b.cc", "BENCHMARK_MAIN();\n")
        self.assertEqual(len(self.packed()), 2)
        for what, text in names.items():
            with self.subTest(what):
                self.units = []
                self.unit("a.cc", "int one() {\n}\n")
                self.unit("b.cc", text)
                self.assertEqual(self.packed(), [["a.cc"], ["b.cc"]])

    def test_a_name_of_its_own_keeps_a_unit_from_those_that_include_another_of_that_name(self):
        (self.root / "one.h").write_text("struct One {\n")
        including, declaring = '#include "one.h"\nint one() {\n', "using One = int;\n"
        for first, second in [(including, declaring), (declaring, including)]:
            self.units = []
            self.unit("a.cc", first)
            self.unit("b.cc", second)
            self.assertEqual(self.packed(), [["a.cc"], ["b.cc"]])

    def test_what_a_unit_defines_for_its_header_keeps_it_from_no_unit_that_includes_that(self):
        (self.root / "one.h").write_text("int one();\n")
        self.unit("a.cc", '#include "one.h"\nint one() {\n}\n')
        self.unit("b.cc", '#include "one.h"\nint two() {\n}\n')
        self.assertEqual(self.packed(), [["a.cc", "b.cc"]])

    def test_other_flags_macros_or_rules_keep_units_apart(self):
        (self.root / "strict").mkdir()
        (self.root / "strict" / ".clang-tidy").write_text("Checks: '-*'\n")
        for what, change in {"flags": {"flags": FLAGS.replace("-Wall", "-Wall -Wextra")}, "macros": {"macro": "A=2"},
                             "rules": {"name": "strict/b.cc"}}.items():
            with self.subTest(what):
                self.units = []
                self.unit("a.cc", "int one() {\n}\n")
                self.unit(**{"name": "b.cc", "text": "int two() {\n}\n", **change})
                self.assertEqual(len(self.packed()), 2)

    def test_what_one_function_holds_is_no_name_of_the_file(self):
        self.unit("a.cc", "void one() {\n  int here = 1;\n  use(here);\n}\n")
        self.unit("b.cc", "void two() {\n  int here = 1;\n  use(here);\n}\n")
        self.assertEqual(len(self.packed()), 1)

    def test_a_pack_holds_only_so_much(self):
        for i in range(packs.MOST_FILES + 1):
            self.unit(f"f{i}.cc", f"int f{i}() {{\n}}\n")
        self.assertEqual([len(pack) for pack in self.packed()], [packs.MOST_FILES, 1])

    def test_a_clean_pack_is_analysed_once_with_the_folders_and_macros_of_all(self):
        self.unit("a.cc", "int one() {\n}\n")
        self.unit("b.cc", "int two() {\n}\n", room="rooms/b", macro="B=2")
        pack, = self.packs()
        self.assertEqual(self.linter.analyse(pack), [])
        (source, command), = self.calls()
        for flag in ("-Irooms/a", "-Irooms/b", "-DA=1", "-DB=2", "-Wall", f"-c {source}"):
            self.assertIn(flag, command)
        self.assertEqual(list(self.build.rglob("lint_pack_*")), [])
        self.assertEqual([path.name for path in (self.build / "lint").iterdir()], ["compile_commands.json"])
        self.assertEqual(self.linter.taken_apart, [])

    def test_a_finding_is_reported_of_its_own_unit_alone(self):
        self.unit("a.cc", "int one() {\n}\n")
        self.unit("b.cc", "int two() { BAD }\n")
        self.unit("c.cc", "int three() {\n}\n")
        pack, = self.packs()
        found = self.linter.analyse(pack)
        self.assertEqual([(unit.name(), said) for unit, said in found], [("b.cc", "found in b.cc\n")])
        self.assertEqual([len(pack.units) for pack in self.linter.taken_apart], [3, 2])

    def test_a_linter_that_ends_without_a_word_has_not_found_a_unit_clean(self):
        self.unit("a.cc", "int one() { SILENT }\n")
        pack, = self.packs()
        self.assertEqual(self.linter.analyse(pack), [(self.units[0], "a.cc: the linter ended with 3")])

    def test_units_that_clash_unseen_are_clean_by_themselves(self):
        self.unit("a.cc", "  int hidden_name;\n")
        self.unit("b.cc", "  int hidden_name;\n")
        pack, = self.packs()
        self.assertEqual(self.linter.analyse(pack), [])
        self.assertEqual(len(self.calls()), 3)
        self.assertEqual(self.linter.taken_apart, [pack])

    def test_only_units_without_findings_are_known_to_be_clean(self):
        self.unit("a.cc", "int one() {\n}\n")
        self.unit("b.cc", "int two() { BAD }\n")
        self.unit("c.cc", "int three() {\n}\n")
        program = self.root / "linter"
        with contextlib.redirect_stdout(io.StringIO()), \
                mock.patch.object(lint, "units_of", lambda build: self.units), \
                mock.patch.object(lint, "linter", lambda build: program), \
                mock.patch.dict(os.environ, {"LOCKSTEP_LINT_CACHE": str(self.root / "cache")}):
            self.assertEqual(lint.tidy(self.build, 2, []), 1)
            (self.root / "calls").unlink()
            self.assertEqual(lint.tidy(self.build, 2, []), 1)
            self.assertEqual([Path(source).name for source, _ in self.calls()], ["b.cc"])
            (self.root / "b.cc").write_text("int two() {\n}\n")
            self.assertEqual(lint.tidy(self.build, 2, []), 0)


if __name__ == "__main__":
    unittest.main()
