#!/usr/bin/env python3
"""Launchers and ranks that are killed, stopped and asked to end at random times: the end is bounded,
the culprit named, and no process, folder or port left.

usage: deaths_test.py LOCKSTEP [--rounds N] [--seed S]
"""
import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from real_processes import CLEAN, processes_of

ROOT = Path(__file__).resolve().parents[3]
MLP = ROOT / "tests" / "harness" / "crosscheck" / "mlp.toml"
TIMEOUT = 2
# Its peers end after the timeout; the timeout and a grace of 5 more make a rank silent for too long.
# The rest is for a busy machine.
MOST_SECONDS = TIMEOUT + TIMEOUT + 5 + 20
WAYS = ("launch", "run", "crosscheck")
SIGNALS = (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM)


class Unkept(Exception):
    """What a round found broken."""


def expect(condition, what):
    if not condition:
        raise Unkept(what)


def command(way, lockstep, folder):
    """A job of two ranks that would take minutes."""
    job = folder / "job.toml"
    job.write_text(MLP.read_text(encoding="utf-8").replace("steps = 50", "steps = 100000"),
                   encoding="utf-8")
    words = [str(job), "--timeout", str(TIMEOUT)]
    ranks = ["--set", "world.ranks=2"]
    if way == "run":
        return [lockstep, "run", *words, *ranks, "--backend", "gloo", "--trace", str(folder / "trace")]
    if way == "crosscheck":
        return [lockstep, "crosscheck", *words, *ranks, "--against", "gloo"]
    return [lockstep, "launch", "--nproc-per-node", "2", "--standalone", "--grace", "2", "--backend",
            "gloo", "--trace", str(folder / "trace"), "--", lockstep, "rank", *words,
            "--set=world.ranks=2"]


def ranks_of(launcher):
    """Process ids by rank, as far as they have been started."""
    found = {}
    try:
        children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text(encoding="ascii")
    except OSError:
        return found
    for pid in children.split():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        own = [name for name in variables if name.startswith(b"RANK=")]
        if b"rank" in words and own:
            found[int(own[0][5:])] = int(pid)
    return found


def listening():
    """Ports at which any process of this machine listens."""
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
            place, state = line.split()[1], line.split()[3]
            if state == "0A":
                ports.add(int(place.rsplit(":", 1)[1], 16))
    return ports


def ports_of(pids):
    """Ports at which these processes listen."""
    sockets = set()
    for pid in pids:
        try:
            for entry in os.scandir(f"/proc/{pid}/fd"):
                target = os.readlink(entry.path)
                if target.startswith("socket:["):
                    sockets.add(target[8:-1])
        except OSError:
            continue
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in sockets:
                ports.add(int(words[1].rsplit(":", 1)[1], 16))
    return ports


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def expect_nothing_left(folder, ports):
    expect(wait_until(lambda: not processes_of(str(folder)), 20),
           f"processes are left: {processes_of(str(folder))}")
    temporary = folder / "tmp"
    expect(wait_until(lambda: not list(temporary.iterdir()), 20),
           f"folders are left: {[path.name for path in temporary.iterdir()]}")
    expect(not ports & listening(), f"ports are left: {ports & listening()}")


def expect_named(text, rank, pid, number):
    """The one that was struck, by rank and process, and with what."""
    line = [one for one in text.splitlines() if f"rank {rank} " in one and f"pid {pid}," in one]
    expect(line, f"rank {rank} (pid {pid}) is not named")
    if number == signal.SIGSTOP:
        expect(any("it is stopped" in one for one in line), "nothing says that it is stopped")
    else:
        expect(any(number.name in one for one in line), f"{number.name} is not named")


def play(lockstep, way, number, victim, delay):
    """One round. `victim`: a rank, or None for the launcher."""
    folder = Path(tempfile.mkdtemp(prefix="lockstep-deaths-"))
    (folder / "tmp").mkdir()
    try:
        with subprocess.Popen(command(way, lockstep, folder), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, start_new_session=True,
                              env={**CLEAN, "OMP_NUM_THREADS": "1",
                                   "TMPDIR": str(folder / "tmp")}) as launcher:
            expect(wait_until(lambda: len(ranks_of(launcher.pid)) == 2, 30), "no two ranks start")
            time.sleep(delay)
            ranks = ranks_of(launcher.pid)
            expect(len(ranks) == 2, "the ranks end by themselves")
            ports = ports_of([launcher.pid, *ranks.values()])
            struck = launcher.pid if victim is None else ranks[victim]
            begin = time.monotonic()
            os.kill(struck, number)
            try:
                out, err = launcher.communicate(timeout=MOST_SECONDS)
            except subprocess.TimeoutExpired as late:
                launcher.kill()
                raise Unkept(f"no end within {MOST_SECONDS} seconds") from late
            seconds = time.monotonic() - begin
        judge(way, number, victim, launcher.returncode, out + err, struck)
        expect_nothing_left(folder, ports)
        return seconds
    finally:
        for pid in processes_of(str(folder)):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def judge(way, number, victim, code, text, struck):
    if victim is None and number == signal.SIGKILL:
        return expect(code == -signal.SIGKILL, f"code {code}")
    expect(code == (1 if way == "launch" else 3), f"code {code}: {text}")
    if victim is None:
        return expect("SIGTERM" in text, f"nothing says what ended the run: {text}")
    return expect_named(text, victim, struck, number)


def draw_rounds(n_rounds, seed):
    draw = random.Random(seed)
    strikes = [(way, number, victim) for way in WAYS for number in SIGNALS for victim in (0, 1, None)
               if victim is not None or number != signal.SIGSTOP]
    for i in range(n_rounds):
        if i % len(strikes) == 0:
            draw.shuffle(strikes)
        yield (*strikes[i % len(strikes)], draw.uniform(0.0, 1.5))


def notices_what_is_left():
    """The twin: a process, a folder and a port that stay are found."""
    folder = Path(tempfile.mkdtemp(prefix="lockstep-deaths-"))
    (folder / "tmp").mkdir()
    program = ("import socket, sys, time; s = socket.create_server(('127.0.0.1', 0)); "
               "print(s.getsockname()[1], flush=True); time.sleep(60)")
    with subprocess.Popen([sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE,
                          text=True) as stays:
        try:
            port = int(stays.stdout.readline())
            return (processes_of(str(folder)) == [stays.pid] and ports_of([stays.pid]) == {port}
                    and port in listening())
        finally:
            stays.kill()
            shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lockstep")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("LOCKSTEP_SEED", "1")))
    chosen = parser.parse_args()
    if not notices_what_is_left():
        sys.exit("a process, folder or port that stays is not found")
    n_broken, longest = 0, 0.0
    for i, (way, number, victim, delay) in enumerate(draw_rounds(chosen.rounds, chosen.seed)):
        whom = "the launcher" if victim is None else f"rank {victim}"
        title = f"round {i}: {way}, {number.name} to {whom} after {delay:.2f} s"
        try:
            seconds = play(str(Path(chosen.lockstep).resolve()), way, number, victim, delay)
        except Unkept as broken:
            n_broken += 1
            print(f"{title}: {broken}", flush=True)
            continue
        longest = max(longest, seconds)
        print(f"{title}: ended in {seconds:.1f} s", flush=True)
    print(f"{chosen.rounds} rounds of seed {chosen.seed}: {n_broken} broken, the longest end took "
          f"{longest:.1f} s")
    sys.exit(1 if n_broken else 0)


if __name__ == "__main__":
    main()
