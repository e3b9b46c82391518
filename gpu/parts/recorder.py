"""Runs commands within a time limit and keeps what they came to: one file, written anew after each step."""
from __future__ import annotations

import datetime
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FORMAT = "lockstep-gpu-recording-1"
REHEARSAL = "lockstep-rehearsal-without-gpu"
NOT_DONE = 77  # As CTest's tests end that could not be tried.
OUT_OF_TIME = 124
# One ring and one channel: the mode in which the order of adding is expected.
ONE_RING = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple",
            "NCCL_MIN_NCHANNELS": "1", "NCCL_MAX_NCHANNELS": "1"}


class Recorder:
    """Several parts may use it at once, each from a thread of its own: a step belongs to the part
    that `part_is` named in its thread."""

    def __init__(self, options):
        self.options = options
        self.backend = "gloo" if options.rehearse else "nccl"
        self.build = pathlib.Path(options.build).resolve()
        self.began = time.monotonic()
        self.end = self.began + options.budget
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-record-"))
        self.environment = {**os.environ, "LOCKSTEP_SHARE_GPU": "1", "LOCKSTEP_CUDA": "strict",
                            "CUDA_VISIBLE_DEVICES": "0", "NCCL_DEBUG": "INFO", "NCCL_RAS_ENABLE": "0",
                            "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET,GRAPH,TUNING"}
        self.recording = {"format": REHEARSAL if options.rehearse else FORMAT,
                          "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
                          "environment": {}, "steps": [], "launches": []}
        self.path = None
        self._lock = threading.RLock()
        self._thread = threading.local()
        self._children = set()
        self._n_logs = 0

    # ---- the file

    def keep_in(self, folder):
        """Chooses the file: what it holds of steps that are not asked again stays."""
        gpu = re.sub(r"[^a-z0-9]+", "-", self.recording["environment"]["gpu"].split(",")[0].lower()).strip("-")
        kind = "rehearsal" if self.options.rehearse else gpu
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{self.recording['date']}-{kind}.json"
        if self.path.exists():
            before = json.loads(self.path.read_text())
            for kept in ("steps", "launches"):
                self.recording[kept] = before[kept]

    def part_is(self, name):
        """From now on this thread's steps belong to this part."""
        self._thread.part = name

    @property
    def part(self):
        return getattr(self._thread, "part", "")

    @property
    def steps(self):
        """Those of this thread's part."""
        return [step for step in self.recording["steps"] if step["part"] == self.part]

    def _replace(self, kept, key, one):
        """Keeps `one`, in the place of what has its part and title. An answer is not lost for a step that was
        begun again and did not end in time."""
        one = {"part": self.part, "version": self.options.version, **one}
        others = self.recording[kept]
        same = [i for i, other in enumerate(others) if (other["part"], other[key]) == (one["part"], one[key])]
        if same and one.get("exit_code") == OUT_OF_TIME:
            return
        if same:
            others[same[0]] = one
        else:
            others.append(one)

    def keep_launch(self, launch):
        with self._lock:
            self._replace("launches", "title", launch)

    def save(self):
        """Whole or not at all, so that a run that is cut off loses no more than the step it was in."""
        if self.path is None:
            return
        with self._lock:
            beside = self.path.with_suffix(".part")
            beside.write_text(json.dumps(self.recording, indent=1) + "\n")
            beside.replace(self.path)

    def note(self, name, code, **more):
        self._keep({"step": name, "exit_code": code, **more}, "done" if code == 0 else f"exit code {code}")

    def not_done(self, name, reason, **more):
        self._keep({"step": name, "exit_code": NOT_DONE, "said": f"not done: {reason}", **more},
                   f"not done: {reason}")

    def _keep(self, step, said):
        with self._lock:
            at = round(time.monotonic() - self.began)
            print(f"{at:4} s {self.part}: {step['step']}: {said}", file=sys.stderr, flush=True)
            self._replace("steps", "step", step)
            self.save()

    def passes_over(self, name, on_gpu=False):
        """Whether a step is not to be begun: it was not asked for, there is no time, or it is of a GPU and
        this is a rehearsal."""
        if not re.search(self.options.steps, name):
            return True
        if time.monotonic() >= self.end - 5:
            self.note(name, OUT_OF_TIME, said="not begun: no time left")
            return True
        if on_gpu and self.backend != "nccl":
            self.not_done(name, "a rehearsal has no GPU")
            return True
        return False

    # ---- commands

    def limited(self, limit):
        """Seconds: a limit that does not outlast the budget."""
        return min(limit, max(1.0, self.end - time.monotonic()))

    def _started(self, words, environment, folder=ROOT, **pipes):
        child = subprocess.Popen([str(word) for word in words], cwd=folder, start_new_session=True,
                                 env={**self.environment, **environment}, **pipes)
        with self._lock:
            self._children.add(child)
        return child

    def _end(self, child):
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
        with self._lock:
            self._children.discard(child)

    def end_all(self):
        """Ends whatever still runs."""
        with self._lock:
            left = list(self._children)
        for child in left:
            self._end(child)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def command(self, words, limit, extra=None, folder=ROOT):
        """Runs a command. Returns its exit code (124: out of time), and what it said."""
        child = self._started(words, extra or {}, folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace")
        try:
            said, _ = child.communicate(timeout=self.limited(limit))
            code = child.returncode
        except subprocess.TimeoutExpired:
            self._end(child)
            said, _ = child.communicate()
            code = OUT_OF_TIME
        self._end(child)
        return code, said

    def log_files(self):
        """Where the ranks of a launch may write what NCCL says: a name with %p, and its pattern."""
        with self._lock:
            self._n_logs += 1
            return str(self.scratch / f"nccl-{self._n_logs}.%p.log"), f"nccl-{self._n_logs}.*.log"

    def ranks(self, n_ranks, arguments, limit, extra=None):
        """As command, of ranks under the launcher. Returns also NCCL's log files."""
        program = self.build / "bin" / "lockstep_gpu_record"
        name, pattern = self.log_files()
        code, said = self.command([self.build / "bin" / "lockstep", "launch", "--standalone",
                                   "--nproc-per-node", n_ranks, "--backend", self.backend, "--grace", 2,
                                   "--", program, *arguments],
                                  limit, {**(extra or {}), "NCCL_DEBUG_FILE": name})
        return code, said, sorted(self.scratch.glob(pattern))

    def alone(self, n_ranks, arguments, limit, extra=None, meanwhile=None):
        """Ranks that no launcher ends when one of them dies. Returns their exit codes.

        meanwhile(running) is called while they run; running() says whether any still does.
        """
        program = self.build / "bin" / "lockstep_gpu_record"
        meeting = tempfile.mkdtemp(dir=self.scratch)
        end = time.monotonic() + self.limited(limit)
        children = []
        for rank in range(n_ranks):
            place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": n_ranks, "LOCAL_WORLD_SIZE": n_ranks,
                     "LOCKSTEP_BACKEND": self.backend, "LOCKSTEP_RENDEZVOUS": meeting}
            children.append(self._started(
                [program, *arguments],
                {**(extra or {}), **{name: str(value) for name, value in place.items()}},
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        if meanwhile:
            meanwhile(lambda: any(child.poll() is None for child in children))
        codes = []
        for child in children:
            try:
                codes.append(child.wait(max(0.1, end - time.monotonic())))
            except subprocess.TimeoutExpired:
                codes.append(OUT_OF_TIME)
            self._end(child)
        return codes
