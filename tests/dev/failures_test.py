#!/usr/bin/env python3
"""What is said of tests that failed: by CTest's run at its end, and by a suite that runs them once more."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

SCRIPT, SUITES = sys.argv[1:3]
TEST = """{i}/3 Testing: {name}
{i}/3 Test: {name}
Output:
----------------------------------------------------------
{said}
<end of output>
Test time =   0.01 sec
----------------------------------------------------------
Test {how}.
"""


def expect(condition, what):
    if not condition:
        sys.exit(f"failures_test: {what}")


def said_of(folder, *words):
    return subprocess.run([sys.executable, SCRIPT, folder, *words], capture_output=True, text=True, check=True).stdout


def last_words(folder):
    logs = folder / "Testing" / "Temporary"
    logs.mkdir(parents=True)
    expect(said_of(folder) == "", "there was no run")
    tests = [("a.good", "fine", "Passed"), ("b.bad", "one\ntwo\nthree", "Failed"), ("c.bad", "four", "Failed")]
    (logs / "LastTest.log").write_text("Start testing\n" + "".join(
        TEST.format(i=i, name=name, said=said, how=how) for i, (name, said, how) in enumerate(tests)))
    expect(said_of(folder) == "", "nothing failed")
    (logs / "LastTestsFailed.log").write_text("2:b.bad\n3:c.bad\n")
    expect(said_of(folder, "2") == "== b.bad said last:\ntwo\nthree\n== c.bad said last:\nfour\n", said_of(folder, "2"))


def once_more(folder):
    """What fails once is run again, by itself; what fails twice has failed."""
    place = importlib.util.spec_from_file_location("run", SUITES)
    run = importlib.util.module_from_spec(place)
    place.loader.exec_module(run)
    (folder / "some_test.py").write_text(
        "import os, pathlib\n"
        "def test_good():\n    pathlib.Path('good').open('a').write('x')\n"
        "def test_flaky():\n    was = os.path.exists('was')\n    pathlib.Path('was').touch()\n    assert was\n"
        "def test_bad():\n    assert 'FIXED' in os.environ\n")
    for environment, code in [({}, 1), ({"FIXED": "1"}, 0)]:
        (folder / "was").unlink(missing_ok=True)
        (folder / "good").unlink(missing_ok=True)
        words = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={folder}/cache", "some_test.py"]
        first = subprocess.run(words, cwd=folder, env={**os.environ, **environment}, capture_output=True)
        expect(first.returncode == run.FAILED, first)
        os.chdir(folder)
        expect(run.again(words, {**os.environ, **environment}) == code, environment)
        expect((folder / "good").read_text() == "x", "what passed is not run again")


with tempfile.TemporaryDirectory() as name:
    last_words(pathlib.Path(name) / "logs")
    if importlib.util.find_spec("pytest"):
        once_more(pathlib.Path(name))
