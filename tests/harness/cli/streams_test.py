#!/usr/bin/env python3
"""Where the command writes: streams that fail, terminals that obey, pipes, devices and links.

usage: streams_test.py LOCKSTEP [TESTS]
"""

import json
import os
import pty
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LOCKSTEP = str(Path(sys.argv[1]).resolve())
LESSON = str(ROOT / "scenarios" / "lessons" / "weights_2_and_200.toml")
FULL = Path("/dev/full")
ESCAPES = "\x1b]0;title\x07\x1b[2J\r\u009b1m\u202e"


def lockstep(*words, **more):
    return subprocess.run([LOCKSTEP, *words], check=False, timeout=60,
                          **{"capture_output": True, "text": True, **more})


class StreamsTest(unittest.TestCase):
    """Each test has a folder of its own."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="lockstep-streams-")
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def trace(self):
        folder = self.folder / "trace"
        done = lockstep("run", LESSON, "--variant", "after_wrapping", "--trace", str(folder), "--quiet")
        self.assertEqual(done.returncode, 1, done.stderr)
        return folder

    @unittest.skipUnless(FULL.exists(), "this machine has no /dev/full")
    def test_an_output_that_fails_is_an_error(self):
        trace = str(self.trace())
        for words in (["check", trace], ["check", trace, "--json"], ["run", LESSON], ["laws"],
                      ["zoo"], ["--help"], ["sampler", "--size", "16", "--replicas", "2"],
                      ["analyze", LESSON], ["test", LESSON]):
            with self.subTest(words=words), open(FULL, "wb") as full:
                done = lockstep(*words, capture_output=False, stdout=full, stderr=subprocess.PIPE)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertEqual(done.stderr, "lockstep: cannot write to the standard output: "
                                              "No space left on device\n")

    def test_a_long_line_is_written_as_quickly_as_short_ones(self):
        done = lockstep("sampler", "--size", "400000", "--replicas", "1", "--no-shuffle")
        self.assertEqual(done.stdout, "rank 0: " + " ".join(map(str, range(400000))) + "\n")

    def test_no_pipe_takes_the_place_of_a_closed_standard_stream(self):
        for stream in (0, 1, 2):
            with self.subTest(stream=stream):
                done = subprocess.run(["bash", "-c", f'"$0" "$@" {stream}>&-', LOCKSTEP, "launch", "--", "true"],
                                      capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def hostile_trace(self):
        """A trace whose names, sites and run id hold what a terminal would obey."""
        folder = self.trace()
        for path in folder.glob("*.jsonl"):
            lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            lines[0].update(run=ESCAPES, scenario=ESCAPES + "\nlaws: all hold")
            for line in lines[1:]:
                if "site" in line:
                    line["site"] = ESCAPES + "\nforged:7"
                if "names" in line:
                    line["names"] = [ESCAPES + name for name in line["names"]]
            path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return str(folder)

    def expect_harmless(self, text, what):
        for letter in text:
            plain = letter in "\n\t" or (ord(letter) >= 0x20 and not 0x7f <= ord(letter) < 0xa0)
            self.assertTrue(plain and letter != "\u202e", f"{what}: {letter!r} in {text!r}")

    def test_text_from_outside_does_not_steer_the_terminal(self):
        trace = self.hostile_trace()
        scenario = self.folder / "hostile.toml"
        scenario.write_text(Path(LESSON).read_text(encoding="utf-8").replace(
            'title', 'title = "\\u001b]0;x\\u0007\\nlaws: all hold"\n#', 1), encoding="utf-8")
        shown = 0
        for words in (["check", trace], ["bisect", trace], ["diff", trace, trace],
                      ["run", str(scenario)], ["run", ESCAPES], ["analyze", ESCAPES],
                      ["check", trace, "--law", ESCAPES], ["explain", "\x1b[31m"]):
            with self.subTest(words=words):
                done = lockstep(*words)
                self.expect_harmless(done.stdout + done.stderr, words[0])
                self.assertNotIn("\nlaws: all hold", done.stdout)
                self.assertNotIn("\nforged", done.stdout)
                shown += (done.stdout + done.stderr).count("\\x1b")
        self.assertGreater(shown, 5)

    def on_terminal(self, *words):
        """What a terminal is given."""
        ours, theirs = pty.openpty()
        with subprocess.Popen([LOCKSTEP, *words], stdout=theirs, stderr=theirs,
                              env={**os.environ, "NO_COLOR": ""}) as process:
            os.close(theirs)
            got = b""
            while True:
                try:
                    part = os.read(ours, 65536)
                except OSError:
                    break
                if not part:
                    break
                got += part
            process.wait(timeout=60)
        os.close(ours)
        return got.decode()

    def test_colours_are_all_that_a_terminal_obeys(self):
        text = self.on_terminal("check", self.hostile_trace())
        self.assertIn("\x1b[31m", text)
        for code in ("\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[1m", "\x1b[0m", "\r\n"):
            text = text.replace(code, "\n" if code == "\r\n" else "")
        self.expect_harmless(text, "check")

    def test_outputs_go_through_pipes_and_links(self):
        trace = str(self.trace())
        pipe, link, target = (self.folder / name for name in ("pipe", "link.html", "target.html"))
        os.mkfifo(pipe)
        link.symlink_to(target.name)
        got = []
        reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
        reader.start()
        done = lockstep("export", trace, "--perfetto", str(pipe))
        reader.join(timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(stat.S_ISFIFO(pipe.stat().st_mode))
        self.assertIn("traceEvents", json.loads(got[0]))

        done = lockstep("run", LESSON, "--report", str(link), "--repro", "/dev/null")
        self.assertEqual(done.stderr, "")
        self.assertTrue(link.is_symlink())
        self.assertIn(b"<html", target.read_bytes()[:200])
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))

    def test_temporary_names_are_not_anothers(self):
        report, part, victim = (self.folder / name for name in ("r.html", "r.html.part", "victim"))
        victim.write_text("precious", encoding="utf-8")
        part.symlink_to(victim.name)
        done = lockstep("run", LESSON, "--report", str(report))
        self.assertEqual(done.stderr, "")
        self.assertEqual(victim.read_text(encoding="utf-8"), "precious")
        self.assertFalse(report.is_symlink())
        self.assertEqual({path.name for path in self.folder.iterdir()},
                         {"r.html", "r.html.part", "victim"})

    def test_a_run_that_is_ended_leaves_a_whole_trace_or_none(self):
        folder = self.folder / "trace"
        scenario = str(ROOT / "scenarios" / "healthy" / "any_schedule.toml")
        words = [LOCKSTEP, "run", scenario, "--trace", str(folder), "--quiet"]
        subprocess.run(words, check=True, timeout=60)
        n_ranks = len(list(folder.iterdir()))
        n_ended = 0
        for i in range(40):
            with subprocess.Popen(words, stderr=subprocess.PIPE) as process:
                time.sleep(0.0005 * i)
                process.send_signal((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[i % 3])
                process.communicate(timeout=60)
            n_ended += process.returncode < 0
            names = [path.name for path in folder.iterdir()]
            self.assertEqual([name for name in names if not name.endswith(".jsonl")], [])
            self.assertEqual(len(names), n_ranks)
        self.assertGreater(n_ended, 0)

    def test_two_runs_with_one_report_both_succeed(self):
        report = self.folder / "r.html"
        runs = [subprocess.Popen([LOCKSTEP, "run", LESSON, "--report", str(report), "--quiet"],
                                 stderr=subprocess.PIPE, text=True) for _ in range(12)]
        for run in runs:
            _, text = run.communicate(timeout=60)
            self.assertEqual((run.returncode, text), (0, ""))
        self.assertTrue(report.read_text(encoding="utf-8").rstrip().endswith("</html>"))
        self.assertEqual(len(list(self.folder.iterdir())), 1)

    def test_quiet_does_not_hide_an_error(self):
        scenario = str(ROOT / "scenarios" / "lessons" / "join_stops_early.toml")
        done = lockstep("run", scenario, "--quiet")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertRegex(done.stderr, "^lockstep run: .*: error: rank 0: Rank 0 exhausted all inputs")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
