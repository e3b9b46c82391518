#!/usr/bin/env python3
"""Launchers and ranks that are killed, stopped and asked to end at random times: the end is bounded,
the culprit named, and no process, folder or port left. One that comes too late changes nothing.

usage: deaths_test.py LOCKSTEP [--rounds N] [--seed S]
"""
import argparse
import functools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from real_processes import CLEAN, processes_of

ROOT = Path(__file__).resolve().parents[3]
MLP = ROOT / "tests" / "harness" / "crosscheck" / "mlp.toml"
N_RANKS = 3
TIMEOUT = 2
# Its peers end after the timeout; the timeout and a grace of 5 more make a rank silent for too long.
# The rest is for a busy machine.
MOST_SECONDS = TIMEOUT + TIMEOUT + 5 + 20
WAYS = ("launch", "run", "crosscheck")
SIGNALS = (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM)
# As soon as the one to be struck is there; once all ranks are; around the end of a short job.
MOMENTS = {"start": 0.05, "midst": 1.5, "end": 1.0}
STEPS = {"start": 100_000, "midst": 100_000, "end": 20}


@dataclass(frozen=True)
class Strike:
    """What happens to whom. victim: a rank, or None for the launcher. delay: seconds into the moment."""
    way: str
    number: signal.Signals
    victim: Optional[int]
    moment: str
    delay: float = 0.0

    def __str__(self):
        whom = "the launcher" if self.victim is None else f"rank {self.victim}"
        return f"{self.way}, {self.number.name} to {whom}, {self.moment} + {self.delay:.3f} s"


class Unkept(Exception):
    """What a round found broken."""


def expect(condition, what):
    if not condition:
        raise Unkept(what)


def command(way, lockstep, folder, n_steps):
    job = folder / "job.toml"
    job.write_text(MLP.read_text(encoding="utf-8").replace("steps = 50", f"steps = {n_steps}"),
                   encoding="utf-8")
    words = [str(job), "--timeout", str(TIMEOUT)]
    ranks = ["--set", f"world.ranks={N_RANKS}"]
    if way == "run":
        return [lockstep, "run", *words, *ranks, "--backend", "gloo"]
    if way == "crosscheck":
        return [lockstep, "crosscheck", *words, *ranks, "--against", "gloo"]
    return [lockstep, "launch", "--nproc-per-node", str(N_RANKS), "--standalone", "--grace", "2",
            "--backend", "gloo", "--trace", str(folder / "trace"), "--", lockstep, "rank", *words,
            f"--set=world.ranks={N_RANKS}"]


def launched(words, folder):
    """With temporary files of its own below the folder."""
    (folder / "tmp").mkdir()
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True,
                            env={**CLEAN, "OMP_NUM_THREADS": "1", "TMPDIR": str(folder / "tmp")})


@functools.lru_cache(maxsize=None)
def whole(way, lockstep):
    """What a short job prints that is left alone. Lines of several ranks come in any order."""
    with tempfile.TemporaryDirectory(prefix="lockstep-deaths-") as name:
        with launched(command(way, lockstep, Path(name), STEPS["end"]), Path(name)) as launcher:
            out, err = launcher.communicate(timeout=60)
    expect(launcher.returncode == 0 and not err, f"{way} fails by itself: {err}")
    return sorted(out.splitlines())


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


def wait_for_moment(strike, launcher):
    """The ranks that are there when it has come."""
    if strike.moment == "midst":
        expect(wait_until(lambda: len(ranks_of(launcher.pid)) == N_RANKS, 30), "ranks do not start")
    elif strike.victim is not None:
        expect(wait_until(lambda: strike.victim in ranks_of(launcher.pid), 30), "the rank does not start")
    time.sleep(strike.delay)
    ranks = ranks_of(launcher.pid)
    expect(strike.moment == "end" or strike.victim is None or strike.victim in ranks,
           "the rank ends by itself")
    return ranks


def send(struck, strike):
    try:
        if struck is not None:
            os.kill(struck, strike.number)
    except ProcessLookupError:
        expect(strike.moment == "end", "the rank ends by itself")


def play(lockstep, strike):
    """One round. Returns how long the end took."""
    folder = Path(tempfile.mkdtemp(prefix="lockstep-deaths-"))
    try:
        with launched(command(strike.way, lockstep, folder, STEPS[strike.moment]), folder) as launcher:
            ranks = wait_for_moment(strike, launcher)
            ports = ports_of([launcher.pid, *ranks.values()])
            struck = launcher.pid if strike.victim is None else ranks.get(strike.victim)
            begin = time.monotonic()
            send(struck, strike)
            try:
                out, err = launcher.communicate(timeout=MOST_SECONDS)
            except subprocess.TimeoutExpired as late:
                launcher.kill()
                raise Unkept(f"no end within {MOST_SECONDS} seconds") from late
            seconds = time.monotonic() - begin
        expect_nothing_left(folder, ports)
        if strike.moment == "end" and launcher.returncode == 0:
            expect(sorted(out.splitlines()) == whole(strike.way, lockstep) and not err,
                   f"neither whole nor a failure: {out}{err}")
        else:
            judge(strike, launcher.returncode, out + err, struck)
        return seconds
    finally:
        for pid in processes_of(str(folder)):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def judge(strike, code, text, struck):
    if strike.victim is None and strike.number == signal.SIGKILL:
        return expect(code == -signal.SIGKILL, f"code {code}")
    # Before it has begun to listen for signals, and after it has ceased to, one just ends it.
    if strike.victim is None and strike.moment != "midst" and code == -signal.SIGTERM:
        return None
    expect(code == (1 if strike.way == "launch" else 3), f"code {code}: {text}")
    if strike.victim is None:
        return expect("SIGTERM" in text, f"nothing says what ended the run: {text}")
    return expect_named(text, strike.victim, struck, strike.number)


def draw_rounds(n_rounds, seed):
    draw = random.Random(seed)
    kinds = [(way, number, victim, moment) for way in WAYS for number in SIGNALS
             for victim in (0, N_RANKS - 1, None) for moment in MOMENTS
             if victim is not None or number != signal.SIGSTOP]
    for i in range(n_rounds):
        if i % len(kinds) == 0:
            draw.shuffle(kinds)
        kind = kinds[i % len(kinds)]
        yield Strike(*kind, draw.uniform(0.0, MOMENTS[kind[-1]]))


def kill_while_it_reads(lockstep):
    """The launcher, when its ranks are gone and it reads what they wrote: out of a pipe that never ends."""
    folder = Path(tempfile.mkdtemp(prefix="lockstep-deaths-"))
    try:
        with launched(command("run", lockstep, folder, STEPS["midst"]), folder) as launcher:
            strike = Strike("run", signal.SIGKILL, 0, "midst")
            ranks = wait_for_moment(strike, launcher)
            traces = []
            expect(wait_until(lambda: traces.extend((folder / "tmp").glob("lockstep-trace-*")) or traces, 30),
                   "no folder of traces is made")
            pipe = traces[0] / f"a000.rank-{N_RANKS:05}.jsonl"
            os.mkfifo(pipe)
            os.kill(ranks[0], strike.number)
            writer = []

            def is_being_read():
                try:
                    writer.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
                except OSError:  # It has not been opened for reading.
                    return False
                return True

            expect(wait_until(is_being_read, MOST_SECONDS), "the trace is not read")
            launcher.kill()
            launcher.communicate(timeout=MOST_SECONDS)
            os.close(writer[0])
        expect_nothing_left(folder, set())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
    lockstep = str(Path(chosen.lockstep).resolve())
    kill_while_it_reads(lockstep)
    n_broken, longest = 0, 0.0
    for i, strike in enumerate(draw_rounds(chosen.rounds, chosen.seed)):
        title = f"round {i}: {strike}"
        try:
            seconds = play(lockstep, strike)
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
