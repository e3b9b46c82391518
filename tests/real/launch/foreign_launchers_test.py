#!/usr/bin/env python3
"""Ranks and launchers that another launcher started: mpirun, and the variables of srun, Hydra and torchrun.

usage: foreign_launchers_test.py LOCKSTEP SAME_SOURCE [TESTS]

srun itself cannot run here, for want of its daemons: what it does to processes is to start them with these variables.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from real_processes import CLEAN

ROOT = Path(__file__).resolve().parents[3]
LOCKSTEP = str(Path(sys.argv[1]).resolve())
PROGRAM = str(Path(sys.argv[2]).resolve())
HEALTHY = str(ROOT / "scenarios" / "lessons" / "weights_2_and_200.toml")
BROKEN = str(ROOT / "scenarios" / "zoo" / "bypass_wrapper.toml")
FOREIGN = ("OMPI_", "PMIX_", "PMI_", "SLURM_", "MPI_", "HYDRA_")
MPIRUN = ["mpirun", "--oversubscribe"]


def slurm(rank, size, **more):
    return {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), "SLURM_NODEID": "0", "SLURM_NTASKS": str(size),
            "SLURM_STEP_NUM_TASKS": str(size), "SLURM_STEP_NUM_NODES": "1", "SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0", **more}


def hydra(rank, size):
    return {"PMI_RANK": str(rank), "PMI_SIZE": str(size), "MPI_LOCALRANKID": str(rank), "MPI_LOCALNRANKS": str(size)}


def torchrun(rank, size):
    return {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}


BY_VARIABLES = {"srun": slurm, "hydra": hydra, "torchrun": torchrun}


class ForeignLaunchersTest(unittest.TestCase):
    """Each test has a folder for temporary files, in which nothing may be left."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="foreign-")
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.scratch = self.folder / "tmp"
        self.scratch.mkdir()
        self.environment = {name: value for name, value in CLEAN.items() if not name.startswith(FOREIGN)}
        self.environment.update(TMPDIR=str(self.scratch), NO_COLOR="1", OMPI_ALLOW_RUN_AS_ROOT="1",
                                OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    def nothing_is_left(self):
        left = sorted(path.name for path in self.scratch.glob("lockstep*"))
        self.assertEqual(left, [])

    def run_alone(self, *words, **variables):
        return subprocess.run(words, cwd=self.folder, env={**self.environment, **variables}, capture_output=True,
                              text=True, timeout=120, check=False)

    def mpirun(self, n, *words, **variables):
        if shutil.which("mpirun") is None:
            self.skipTest("openmpi-bin is missing: ./dev setup installs it")
        return self.run_alone(*MPIRUN, "-n", str(n), *words, **variables)

    def start(self, place, n, *words, **variables):
        """One process per rank, with the variables that a launcher would set."""
        return [subprocess.Popen(words, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env={**self.environment, **place(rank, n), **variables}) for rank in range(n)]

    @staticmethod
    def ends(processes):
        """Code, standard output and standard error of each."""
        ended = []
        for process in processes:
            out, err = process.communicate(timeout=120)
            ended.append((process.returncode, out, err))
        return ended

    def test_a_program_prints_the_bits_of_virtual_ranks_under_mpirun(self):
        simulated = self.run_alone(PROGRAM).stdout.splitlines()
        done = self.mpirun(2, PROGRAM, LOCKSTEP_BACKEND="gloo")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(2 * simulated))
        self.nothing_is_left()

    def test_a_program_prints_the_bits_of_virtual_ranks_by_variables(self):
        simulated = self.run_alone(PROGRAM).stdout
        for name, place in BY_VARIABLES.items():
            with self.subTest(name):
                ended = self.ends(self.start(place, 2, PROGRAM, LOCKSTEP_BACKEND="gloo"))
                self.assertEqual(ended, [(0, simulated, "")] * 2)
                self.nothing_is_left()

    def test_run_is_a_rank_under_mpirun(self):
        for scenario, code in ((HEALTHY, 0), (BROKEN, 1)):
            with self.subTest(scenario):
                words = [LOCKSTEP, "run", scenario, "--backend", "gloo", "--nproc", "2"]
                own = self.run_alone(*words, "--report", "own.json", "--trace", "own")
                done = self.mpirun(2, *words, "--report", "mpirun.json", "--trace", "trace")
                self.assertEqual((own.returncode, done.returncode), (code, code), done.stderr)
                self.assertEqual(re.sub("\x1b\\[[0-9;]*m", "", done.stdout.replace("\r", "")), own.stdout)
                reports = [json.loads((self.folder / name).read_text(encoding="utf-8")) for name in ("own.json", "mpirun.json")]
                for report in reports:
                    report.pop("times", None)  # Those of a clock.
                self.assertEqual(reports[0], reports[1])
                compared = self.run_alone(LOCKSTEP, "diff", "own", "trace")
                self.assertEqual(compared.returncode, 0, compared.stdout)
                self.nothing_is_left()

    def test_run_is_a_rank_by_variables(self):
        own = self.run_alone(LOCKSTEP, "run", BROKEN, "--backend", "gloo", "--nproc", "2")
        self.assertEqual(own.returncode, 1)
        for name, place in BY_VARIABLES.items():
            with self.subTest(name):
                ended = self.ends(self.start(place, 2, LOCKSTEP, "run", BROKEN, "--backend", "gloo", "--nproc", "2"))
                self.assertEqual(ended, [(1, own.stdout, ""), (0, "", "")])
                self.nothing_is_left()

    def test_run_is_a_rank_under_lockstep_launch(self):
        words = ["run", HEALTHY, "--backend", "gloo", "--nproc", "2"]
        own = self.run_alone(LOCKSTEP, *words)
        done = self.run_alone(LOCKSTEP, "launch", "--nproc-per-node", "2", "--", LOCKSTEP, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.replace("[rank 0] ", "").replace("[rank 0]", ""), own.stdout)
        self.nothing_is_left()

    def test_a_scenario_of_another_size_is_refused_by_every_rank(self):
        for code, out, err in self.ends(self.start(slurm, 3, LOCKSTEP, "run", HEALTHY, "--backend", "gloo")):
            self.assertEqual((code, out), (2, ""))
            self.assertEqual(err, "lockstep run: the scenario has 2 ranks, and the launcher started 3; --nproc 3 makes "
                                  "them fit\n")
        self.nothing_is_left()

    # Otherwise it would wait for ranks that never start.
    def test_a_process_that_is_alone_starts_the_ranks_itself(self):
        batch_script = slurm(0, 4)
        for name in ("SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_NODES", "SLURM_STEP_ID"):
            del batch_script[name]
        for variables in (batch_script, slurm(0, 1), hydra(0, 1), torchrun(0, 1)):
            done = self.run_alone(LOCKSTEP, "run", HEALTHY, "--backend", "gloo", "--timeout", "20", **variables)
            self.assertEqual(done.returncode, 0, done.stderr)
            done = self.run_alone(LOCKSTEP, "launch", "--nproc-per-node", "2", "--backend", "gloo", "--", PROGRAM, **variables)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.count("laws: hold"), 2)
        self.nothing_is_left()

    def test_a_place_that_makes_no_sense_is_refused(self):
        for variables, said in (
                ({"OMPI_COMM_WORLD_RANK": "0"}, "OMPI_COMM_WORLD_SIZE: OMPI_COMM_WORLD_RANK is set but"),
                ({"PMI_SIZE": "two", "PMI_RANK": "0"}, "PMI_SIZE: 'two' is not a whole number, 0 or more"),
                (slurm(5, 4), "SLURM_PROCID: rank 5 in a world of 4")):
            done = self.run_alone(LOCKSTEP, "run", HEALTHY, "--backend", "gloo", **variables)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertTrue(done.stderr.startswith(f"lockstep run: {said}"), done.stderr)

    def launchers(self, *words, hosts="127.0.0.[1-2]"):
        """One launcher on each of two machines, both of which are this one."""
        places = [slurm(node, 2, SLURM_NODEID=str(node), SLURM_LOCALID="0", SLURM_STEP_NUM_NODES="2", SLURM_STEP_NODELIST=hosts,
                        SLURM_JOB_ID=str(os.getpid())) for node in range(2)]
        meet = {"LOCKSTEP_RENDEZVOUS": str(self.scratch / "meet")}
        return self.ends([subprocess.Popen([LOCKSTEP, "launch", *words], cwd=self.folder, stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE, text=True, env={**self.environment, **place, **meet})
                          for place in places])

    def test_launchers_that_srun_started_find_each_other(self):
        script = "echo $RANK of $WORLD_SIZE, machine $GROUP_RANK, $TORCHELASTIC_RUN_ID, $MASTER_ADDR $MASTER_PORT"
        ended = self.launchers("--nproc-per-node", "2", "--", "sh", "-c", script)
        said = []
        for node, (code, out, err) in enumerate(ended):
            self.assertEqual(code, 0, err)
            self.assertIn(f"machine {node + 1} of the 2 on which srun started a launcher; they meet at 127.0.0.1", err)
            said += [re.sub(r"^\[rank \d\] ", "", line) for line in out.splitlines()]
        port = 10_000 + 2 * ((os.getpid() % 10_000 * 61) % 10_000)
        self.assertEqual(sorted(said), [f"{rank} of 4, machine {rank // 2}, slurm-{os.getpid()}-0, 127.0.0.1 {port}"
                                        for rank in range(4)])

    def test_launchers_that_srun_started_run_one_world(self):
        simulated = self.run_alone(PROGRAM).stdout
        for code, out, err in self.launchers("--backend", "gloo", "--", PROGRAM):
            self.assertEqual(code, 0, err)
            self.assertEqual(re.sub(r"(?m)^\[rank \d\] ", "", out), simulated)
        self.assertEqual(list((self.scratch / "meet").iterdir()), [])

    def test_what_was_typed_counts_more_than_what_srun_says(self):
        variables = slurm(1, 2, SLURM_NODEID="1", SLURM_STEP_NUM_NODES="2", SLURM_STEP_NODELIST="n[1-2]")
        done = self.run_alone(LOCKSTEP, "launch", "--standalone", "--", "sh", "-c", "echo $WORLD_SIZE", **variables)
        self.assertEqual((done.returncode, done.stdout), (0, "[rank 0] 1\n"), done.stderr)

    def test_several_launchers_on_one_machine_are_refused(self):
        for place, by in ((slurm(1, 2), "srun"), (hydra(1, 2), "mpirun")):
            done = self.run_alone(LOCKSTEP, "launch", "--nproc-per-node", "2", "--", "true", **place)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"lockstep launch: {by} started 2 launchers, several of them on one machine", done.stderr)
        done = self.run_alone(LOCKSTEP, "launch", "--", "true", PMI_RANK="1", PMI_SIZE="2", MPI_LOCALNRANKS="1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("does not say which is the first; name it: --master-addr HOST", done.stderr)

    # The name of the folder is the same for every run that Hydra starts: what killed ones left is removed by the next.
    def test_what_killed_ranks_left_is_removed_by_the_next_run(self):
        words = [LOCKSTEP, "run", HEALTHY, "--backend", "gloo", "--timeout", "60"]
        first = subprocess.Popen(words, cwd=self.folder, env={**self.environment, **hydra(0, 2)}, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)  # It waits for a second one.
        deadline = time.monotonic() + 60
        while not list(self.scratch.glob("lockstep-none-*/session-*/rank-0")):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        first.send_signal(signal.SIGKILL)
        self.ends([first])
        self.assertNotEqual(list(self.scratch.glob("lockstep-none-*")), [])
        ended = self.ends(self.start(hydra, 2, PROGRAM, LOCKSTEP_BACKEND="gloo"))
        self.assertEqual([code for code, _, _ in ended], [0, 0], ended)
        self.nothing_is_left()


if __name__ == "__main__":
    sys.exit(unittest.main(argv=[sys.argv[0], *sys.argv[3:]]))
