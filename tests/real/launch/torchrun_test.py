#!/usr/bin/env python3
"""`lockstep launch` held against PyTorch's launchers: every command line of torchrun_cases.py has the same
variables, arguments, exit code, restarts and files, or a reason why not. docs/torchrun.md shows the table.

usage: torchrun_test.py LOCKSTEP recorded       against tests/golden/torchrun.json, and the page
       torchrun_test.py LOCKSTEP live FOLDER    against PyTorch in the virtual environment FOLDER
       torchrun_test.py LOCKSTEP page           writes the table of the page
"""
import functools
import json
import queue
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torchrun_cases as cases
from preloaded import Preloaded

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = json.loads((ROOT / "tests" / "golden" / "torchrun.json").read_text(encoding="utf-8"))
PAGE = ROOT / "docs" / "torchrun.md"
BEGIN, END = "<!-- table begins -->\n", "<!-- table ends -->\n"
LOCKSTEP, MODE = str(Path(sys.argv[1]).resolve()), sys.argv[2]


def all_of(command_of):
    """What a launcher makes of each case."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda case: cases.run(case, command_of(case)), cases.CASES))


def ours():
    return all_of(lambda case: cases.ours(case, LOCKSTEP))


def theirs(python):
    """PyTorch's launchers, imported twice for all cases."""
    with Preloaded(python) as one, Preloaded(python) as other:
        free = queue.SimpleQueue()
        free.put(one)
        free.put(other)

        def launcher(case, *where):
            preloaded = free.get()
            try:
                return preloaded.run(cases.module(case), *where)
            finally:
                free.put(preloaded)

        return all_of(lambda case: functools.partial(launcher, case))


def recorded():
    return [GOLDEN["cases"][cases.title(case)] for case in cases.CASES]


def both(values):
    """One text where both launchers agree, two where they do not."""
    mine, theirs = map(str, values)
    return mine if mine == theirs else f"{theirs} / {mine}"


def ranks_text(found):
    """World, place and arguments, as the last attempt's first rank finds them."""
    if not found["ranks"]:
        return "none", "", ""
    one = next(own for name, own in found["ranks"].items() if name.startswith(f"{found['restarts']}."))
    variables = one["variables"]
    place = f"{variables['MASTER_ADDR']}:{variables['MASTER_PORT']}, run `{variables['TORCHELASTIC_RUN_ID']}`"
    return variables["WORLD_SIZE"], place, " ".join(one["arguments"])


def row(case, mine, theirs):
    world, place, arguments = ranks_text(mine)
    files = sorted(path.removeprefix("RUN/") for path in mine["files"])
    shown = f"{len(files)}: `{files[0]}` to `{files[-1]}`" if files else "none"
    verdict = case.exit_code if case.exit_code else "equal"
    if cases.unexplained(case, mine, theirs):
        verdict = "DIFFERENT"
    codes = both((mine["exit code"], theirs["exit code"]))
    return (f"| `{cases.title(case)}` | {world} | {place} | {f'`{arguments}`' if arguments else ''} | {codes} | "
            f"{both((mine['restarts'], theirs['restarts']))} | {shown} | {verdict} |\n")


def table(mine, theirs):
    text = (f"\nPyTorch {GOLDEN['torch']}, {len(cases.CASES)} command lines.\n\n"
            "| command line | ranks | where rank 0 is | arguments of rank 0 | exit code | restarts | log files | verdict |\n"
            "|---|---|---|---|---|---|---|---|\n")
    return text + "".join(map(row, cases.CASES, mine, theirs)) + "\n"


class TorchrunTest(unittest.TestCase):
    """Each command line, here and there."""

    def expect_equal(self, mine, theirs):
        self.assertGreaterEqual(len(cases.CASES), 20)
        for case, own, other in zip(cases.CASES, mine, theirs, strict=True):
            with self.subTest(cases.title(case)):
                self.assertEqual(cases.unexplained(case, own, other), [])

    @unittest.skipUnless(MODE == "recorded", "of another mode")
    def test_every_line_does_what_torchrun_was_recorded_to_do(self):
        mine, theirs = ours(), recorded()
        self.assertEqual(sorted(GOLDEN["cases"]), sorted(map(cases.title, cases.CASES)))
        self.expect_equal(mine, theirs)
        shown = PAGE.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0]
        self.assertEqual(shown, table(mine, theirs), "torchrun_test.py LOCKSTEP page writes it")

    @unittest.skipUnless(MODE == "live", "of another mode")
    def test_every_line_does_what_torchrun_does_now(self):
        folder = Path(sys.argv[3])
        if not (folder / "ready.txt").exists():
            print(f"not compared: there is no PyTorch in {folder}")
            return
        found = theirs(folder / "bin" / "python")
        self.expect_equal(ours(), found)
        for case, now, then in zip(cases.CASES, found, recorded(), strict=True):
            with self.subTest("recorded: " + cases.title(case)):
                self.assertEqual(cases.differences(now, then), [])

    @unittest.skipUnless(MODE == "recorded", "of another mode")
    def test_a_difference_in_any_column_is_noticed(self):
        index = next(i for i, case in enumerate(cases.CASES) if "-r 3 -t 1" in case.line)
        case, theirs = cases.CASES[index], recorded()[index]
        for change in (lambda one: one.update({"exit code": 3}),
                       lambda one: one.update({"restarts": 0}),
                       lambda one: one["files"].pop("RUN/attempt_1/0/stdout.log"),
                       lambda one: one["terminal"].pop(),
                       lambda one: one["ranks"].pop("0.0"),
                       lambda one: one["ranks"]["1.0"]["arguments"].append("x"),
                       lambda one: one["ranks"]["1.1"]["variables"].update(ROLE_RANK="0"),
                       lambda one: one["ranks"]["1.1"]["variables"].pop("OMP_NUM_THREADS")):
            changed = json.loads(json.dumps(theirs))
            change(changed)
            self.assertEqual(len(cases.unexplained(case, changed, theirs)), 1)
        explained = next(case for case in cases.CASES if case.exit_code == cases.EXIT_2)
        found = GOLDEN["cases"][cases.title(explained)]
        self.assertEqual(len(cases.unexplained(explained, found, found)), 1, "a reason without a difference")


def write_page():
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    PAGE.write_text(before + BEGIN + table(ours(), recorded()) + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    if MODE == "page":
        write_page()
    else:
        unittest.main(argv=sys.argv[:1])
