#!/usr/bin/env python3
"""Each rule of rooms.py, shown a tree that breaks it: a checker is trusted only after it was seen to
fire."""
import unittest

from rooms import (MOST_CONCEPTS, Room, Tree, against_directions, complaints, crowded, cycles, homeless,
                   lost_includes, needed, page_parts, picture, stale, table, unlinked, unlinted, unnamed,
                   unused, with_parts)


def tree(files, **rooms):
    """`rooms`: NAME=(DEPS, PRIVATE_DEPS), all of src."""
    made = [Room(name, f"src/{name}", "about " + name, deps.split(), private.split())
            for name, (deps, private) in rooms.items()]
    return Tree(made, files)


LINT = "HeaderFilterRegex: '/(include|src|sim|real|gpu|harness|python|tests)/'\n"
USES_A = '#include "lockstep/a/a.h"\n'
SOUND = {"src/a/a.h": "", "src/b/b.h": USES_A, "src/b/b.cc": '#include "lockstep/b/b.h"\n'}


class RoomRulesTest(unittest.TestCase):

    def test_a_tree_that_is_as_declared_is_quiet(self):
        sound = tree(SOUND, a=("", ""), b=("a", ""))
        page = with_parts("<!-- rooms: x -->\n\n<!-- end of rooms -->\n"
                          "<!-- picture: x -->\n\n<!-- end of picture -->\n", page_parts(sound))
        self.assertEqual(complaints(sound, page, LINT), [])

    def test_a_room_that_is_included_and_not_named_is_reported(self):
        self.assertEqual(list(unnamed(tree(SOUND, a=("", ""), b=("", "")))),
                         ["src/b/b.h:1: includes a, which b does not name in DEPS"])

    def test_naming_a_room_privately_does_not_open_it_to_headers(self):
        self.assertEqual(len(list(unnamed(tree(SOUND, a=("", ""), b=("", "a"))))), 1)

    def test_headers_in_detail_need_a_private_name_only(self):
        files = {"src/a/a.h": "", "src/b/detail/b.h": USES_A}
        self.assertEqual(list(unnamed(tree(files, a=("", ""), b=("", "a")))), [])

    def test_a_package_that_is_included_and_not_linked_is_reported(self):
        files = {"src/a/a.h": "#include <fmt/core.h>\n", "src/a/a.cc": "#include <fmt/core.h>\n#include <sys/stat.h>\n"}

        def found(**links):
            return list(unlinked(Tree([Room("a", "src/a", **links)], files)))

        self.assertEqual(found(), ["src/a/a.h: includes fmt, and a does not name fmt::fmt in LINKS",
                                   "src/a/a.cc: includes fmt, and a does not name fmt::fmt in PRIVATE_LINKS"])
        self.assertEqual(len(found(private_links=["fmt::fmt"])), 1)
        self.assertEqual(found(links=["fmt::fmt"]), [])

    def test_a_room_that_is_named_and_not_included_is_reported(self):
        files = {"src/a/a.h": "", "src/b/b.cc": ""}
        self.assertEqual(list(unused(tree(files, a=("", ""), b=("", "a")))),
                         ["src/b: nothing in it includes a, which it names in PRIVATE_DEPS"])

    def test_a_public_name_for_a_private_use_is_reported(self):
        files = {"src/a/a.h": "", "src/b/b.cc": USES_A}
        self.assertEqual(list(unused(tree(files, a=("", ""), b=("a", "")))),
                         ["src/b: no header of it includes a, which it names in DEPS; "
                          "PRIVATE_DEPS is enough"])

    def test_an_arrow_against_the_directions_is_reported(self):
        rooms = [Room("a", "src/a"), Room("sim/s", "sim/s"), Room("real/r", "real/r"),
                 Room("harness/h", "harness/h"), Room("gpu/g", "gpu/g")]
        up = {"src/a/a.h": '#include "lockstep/sim/s/s.h"\n', "sim/s/s.h": ""}
        self.assertEqual(list(against_directions(Tree(rooms, up))),
                         ["src/a/a.h:1: src may not use sim, and it includes sim/s"])
        sideways = {"sim/s/s.h": '#include "lockstep/real/r/r.h"\n', "real/r/r.h": ""}
        self.assertEqual(len(list(against_directions(Tree(rooms, sideways)))), 1)
        down = {"harness/h/h.h": '#include "lockstep/gpu/g/g.h"\n',
                "gpu/g/g.h": '#include "lockstep/real/r/r.h"\n', "real/r/r.h": USES_A, "src/a/a.h": ""}
        self.assertEqual(list(against_directions(Tree(rooms, down))), [])

    def test_a_cycle_is_reported_with_its_rooms(self):
        files = {"src/a/a.h": '#include "lockstep/b/b.h"\n', "src/b/b.h": "", "src/b/b.cc": USES_A}
        self.assertEqual(list(cycles(tree(files, a=("b", ""), b=("", "a")))),
                         ["a: is part of a cycle of rooms: a, b", "b: is part of a cycle of rooms: a, b"])

    def test_a_crowded_folder_is_reported(self):
        files = {f"src/a/{i}.h": "" for i in range(MOST_CONCEPTS)}
        self.assertEqual(list(crowded(tree(files, a=("", "")))), [])
        files["src/a/more.h"] = ""
        self.assertEqual(list(crowded(tree(files, a=("", "")))),
                         ["src/a: 13 concepts; above 12 there is a second room in it"])

    def test_a_file_outside_every_room_is_reported(self):
        self.assertEqual(list(homeless(tree({"src/z/z.cc": ""}, a=("", "")))),
                         ["src/z/z.cc: lies in no room; declare one with lockstep_room"])

    def test_an_include_of_nothing_is_reported(self):
        self.assertEqual(list(lost_includes(tree({"src/b/b.h": USES_A}, b=("", "")))),
                         ["src/b/b.h:1: there is no lockstep/a/a.h"])

    def test_a_floor_that_the_linter_passes_by_is_reported(self):
        self.assertEqual(list(unlinted(LINT)), [])
        self.assertEqual(list(unlinted(LINT.replace("|real", ""))),
                         [".clang-tidy: HeaderFilterRegex does not name real"])

    def test_a_stale_page_is_reported(self):
        page = "<!-- rooms: x -->\n\n<!-- end of rooms -->\n<!-- picture: x -->\n\n<!-- end of picture -->\n"
        sound = tree(SOUND, a=("", ""), b=("a", ""))
        fresh = with_parts(page, page_parts(sound))
        self.assertEqual(list(stale(sound, fresh)), [])
        self.assertEqual(len(list(stale(sound, fresh.replace("about a", "about all")))), 1)
        self.assertEqual(len(list(stale(sound, fresh.replace("b --> a", "")))), 1)

    def test_a_header_of_the_front_door_belongs_to_the_room_that_implements_it(self):
        rooms = [Room("a", "src/a"), Room("b", "src/b", front_door=["run.h"])]
        files = {"src/a/a.h": "", "include/lockstep/run.h": USES_A}
        self.assertEqual(len(list(unnamed(Tree(rooms, files)))), 1)

    def test_the_table_and_the_picture_say_who_uses_whom(self):
        sound = tree(SOUND, a=("", ""), b=("a", ""))
        self.assertIn("| `src/b` | about b | `a` |", table(sound))
        self.assertIn("  b --> a\n", picture(sound))

    def test_an_arrow_that_others_imply_is_not_drawn(self):
        uses = {"c": {"a", "b"}, "b": {"a"}}
        self.assertEqual(needed("c", uses), {"b"})


if __name__ == "__main__":
    unittest.main()
