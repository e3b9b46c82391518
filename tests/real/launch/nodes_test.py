#!/usr/bin/env python3
"""Launchers of several machines, all on this one: they start, stop, restart and end together.

usage: nodes_test.py LOCKSTEP [TESTS]
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from real_processes import CLEAN, processes_of

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
from ports import reserved_ports  # noqa: E402

LOCKSTEP = str(Path(sys.argv[1]).resolve())

# Every rank notes that it began; `fails` decides what becomes of it.
PROGRAM = """
import os, signal, sys, time
rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
names = ("GROUP_RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_RANK",
         "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")
print("began", rank, attempt, os.getpid(), " ".join(os.environ[name] for name in names), flush=True)
def others_began(n):
    open(f"{FOLDER}/{attempt}.{rank}", "w").close()
    while sum(name.startswith(f"{attempt}.") for name in os.listdir(FOLDER)) < n: time.sleep(0.01)
"""


class NodesTest(unittest.TestCase):
    """Two launchers with two ranks each, unless a test says otherwise."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="lockstep-nodes-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.port = self.enterContext(reserved_ports(2))
        self.running = []

    def tearDown(self):
        for process in self.running:
            if process.poll() is None:
                process.kill()

    def program(self, fails):
        path = self.folder / "program.py"
        path.write_text(f"FOLDER = {str(self.folder)!r}\n" + PROGRAM + fails, encoding="utf-8")
        return [sys.executable, str(path)]

    def start(self, node, program, *more, nodes=2):
        words = [LOCKSTEP, "launch", "--nnodes", str(nodes), "--node-rank", str(node), "--nproc-per-node", "2",
                 "--master-addr", "127.0.0.1", "--master-port", str(self.port), "--rdzv-id", "job",
                 "--grace", "5", *more, "--", *program]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=CLEAN)
        self.running.append(process)
        return process

    def finish(self, processes, timeout=60):
        """(exit code, stdout, stderr) of each; nothing may be left of them."""
        ended = []
        for process in processes:
            out, err = process.communicate(timeout=timeout)
            ended.append((process.returncode, out, err))
        # The keeper of a launcher that was killed has its folder to remove first.
        end = time.monotonic() + 10
        while processes_of(str(self.folder)) and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(processes_of(str(self.folder)), [], "left behind")
        return ended

    def begun(self, ended):
        """{(rank, attempt): variables} over all nodes."""
        found = {}
        for _, out, _ in ended:
            for rank, attempt, rest in re.findall(r"began (\d+) (\d+) \d+ (.*)", out):
                key = (int(rank), int(attempt))
                self.assertNotIn(key, found)
                found[key] = rest.split()
        return found

    def test_two_healthy_nodes_run_their_ranks_once(self):
        program = self.program("others_began(4)\n")
        # Node 1 first: it waits for the one that leads.
        second = self.start(1, program)
        time.sleep(0.3)
        ended = self.finish([self.start(0, program), second])
        self.assertEqual([code for code, _, _ in ended], [0, 0], ended)
        begun = self.begun(ended)
        self.assertEqual(sorted(begun), [(rank, 0) for rank in range(4)])
        for (rank, _), variables in begun.items():
            self.assertEqual(variables, [str(rank // 2), str(rank % 2), "4", "2", "2", str(rank), "0", "job",
                                         "127.0.0.1", str(self.port)])

    def test_a_rank_that_dies_restarts_the_ranks_of_all_nodes(self):
        for victim in (0, 3):
            with self.subTest(victim=victim):
                for old in self.folder.glob("*.*"):
                    if old.suffix != ".py":
                        old.unlink()
                program = self.program(
                    "others_began(4)\n"
                    f"if rank == {victim} and attempt == 0: os.kill(os.getpid(), signal.SIGKILL)\n"
                    "if attempt == 0: time.sleep(60)\n")
                began = time.monotonic()
                ended = self.finish([self.start(node, program, "--max-restarts", "1") for node in (0, 1)])
                self.assertLess(time.monotonic() - began, 30, "the other node was not notified")
                self.assertEqual([code for code, _, _ in ended], [0, 0], ended)
                self.assertEqual(sorted(self.begun(ended)), [(rank, n) for rank in range(4) for n in (0, 1)])
                for _, _, err in ended:
                    self.assertIn(f"signal 9 (SIGKILL) of rank {victim}; starting all ranks again (restart 1 of 1)",
                                  err)

    def test_ranks_that_have_ended_begin_again_too(self):
        program = self.program(
            "others_began(4)\n"
            "if rank == 3 and attempt == 0: time.sleep(1); sys.exit(7)\n")
        ended = self.finish([self.start(node, program, "--max-restarts", "2") for node in (0, 1)])
        self.assertEqual([code for code, _, _ in ended], [0, 0], ended)
        self.assertEqual(len(self.begun(ended)), 8)

    def test_no_restarts_left_ends_all_nodes_with_1(self):
        program = self.program("others_began(4)\nif rank == 2: sys.exit(5)\ntime.sleep(60)\n")
        ended = self.finish([self.start(node, program, "--max-restarts", "1") for node in (0, 1)])
        self.assertEqual([code for code, _, _ in ended], [1, 1], ended)
        self.assertEqual(len(self.begun(ended)), 8)
        self.assertIn("lockstep launch: exit code 5 of rank 2", ended[0][2])
        self.assertIn("rank 2", ended[1][2])

    def test_a_launcher_that_is_killed_ends_the_others(self):
        for killed in (0, 1):
            with self.subTest(killed=killed):
                program = self.program("time.sleep(60)\n")
                nodes = [self.start(node, program, "--max-restarts", "3") for node in (0, 1)]
                for process in nodes:
                    process.stdout.readline()
                nodes[killed].kill()
                ended = self.finish(nodes)
                self.assertEqual(ended[1 - killed][0], 1, ended)
                self.assertIn(f"the launcher of node {killed} is gone", ended[1 - killed][2])

    def test_a_signal_to_one_launcher_stops_all(self):
        for stopped in (0, 1):
            with self.subTest(stopped=stopped):
                program = self.program("time.sleep(60)\n")
                nodes = [self.start(node, program, "--max-restarts", "3") for node in (0, 1)]
                for process in nodes:
                    process.stdout.readline()
                nodes[stopped].send_signal(signal.SIGTERM)
                ended = self.finish(nodes)
                self.assertEqual([code for code, _, _ in ended], [1, 1], ended)
                self.assertIn("stopped by signal 15 (SIGTERM)", ended[stopped][2])
                self.assertIn(f"the launcher of node {stopped} was stopped by signal 15", ended[1 - stopped][2])

    def test_a_launcher_of_another_job_is_refused(self):
        program = self.program("others_began(4)\ntime.sleep(1)\n")
        first = self.start(0, program)
        other_job = self.start(1, program, "--max-restarts", "9")
        _, err = other_job.communicate(timeout=30)
        self.assertEqual(other_job.returncode, 2)
        self.assertIn("node 0 has other --nnodes, --nproc-per-node, --max-restarts or --rdzv-id", err)
        second = self.start(1, program)
        second.stdout.readline()
        twin = self.start(1, program)
        out, err = twin.communicate(timeout=30)
        self.assertEqual(twin.returncode, 2, out)
        self.assertIn("there is a node 1 already", err)
        # A stranger that connects by mistake does no harm.
        with socket.create_connection(("127.0.0.1", self.port + 1)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        self.assertEqual([code for code, _, _ in self.finish([first, second])], [0, 0])

    def test_nodes_that_do_not_arrive_are_named(self):
        program = self.program("")
        [(code, out, err)] = self.finish([self.start(0, program, "--join-timeout", "0.5", nodes=3)])
        self.assertEqual((code, out), (1, ""))
        self.assertIn("nodes 1, 2 did not arrive within", err)
        [(code, out, err)] = self.finish([self.start(1, program, "--join-timeout", "0.5")])
        self.assertEqual((code, out), (1, ""))
        self.assertIn("node 0 did not arrive within", err)

    def test_the_search_for_orphans_finds_one(self):
        """The twin of every "left behind": a process that moved away is seen."""
        program = self.program(
            "import subprocess\n"
            "if rank == 0: subprocess.Popen(['sleep', '30', ], start_new_session=True, env={'M': FOLDER},\n"
            "                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n")
        nodes = [self.start(node, program) for node in (0, 1)]
        for process in nodes:
            process.communicate(timeout=60)
        left = processes_of(str(self.folder))
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(len(left), 1)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
