#!/usr/bin/env python3
"""Records what NCCL does on this machine's GPU: `gpu/record.py BUILD_FOLDER`.

Runs the collectives of one to four ranks on one GPU, names the order in which NCCL added, lets ranks
diverge and die, trains a network, and writes it all as one dated file into gpu/recordings. Beside that
it asks others (gpu/probes.py): PyTorch, NCCL about a hang, NVIDIA's checker about our kernels. Every
step has a time limit; what fails is recorded as failed, what could not be tried with the reason. Without
a GPU it says so, exits with 3 and writes nothing. Ranks share the GPU by turns: nothing here measures
speed.

--rehearse runs the same steps over Gloo, to try the script; its result is not a recording.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import probes

ROOT = pathlib.Path(__file__).resolve().parent.parent
FORMAT = "lockstep-gpu-recording-1"
REHEARSAL = "lockstep-rehearsal-without-gpu"
# One ring and one channel: the mode in which the order of adding is expected.
ONE_RING = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple",
            "NCCL_MIN_NCHANNELS": "1", "NCCL_MAX_NCHANNELS": "1"}
MODES = {
    "ring, simple, 1 channel": ONE_RING,
    "tree, simple, 1 channel": {**ONE_RING, "NCCL_ALGO": "ring;allreduce:tree"},
    "ring, LL, 1 channel": {**ONE_RING, "NCCL_PROTO": "LL"},
    "ring, simple, 2 channels": {**ONE_RING, "NCCL_MIN_NCHANNELS": "2", "NCCL_MAX_NCHANNELS": "2"},
    "ring, simple, 4 channels": {**ONE_RING, "NCCL_MIN_NCHANNELS": "4", "NCCL_MAX_NCHANNELS": "4"},
}
NOT_DONE = 77  # As CTest's tests end that could not be tried.
FAULTS = ["op", "dtype", "count", "count-much", "root", "swap", "skip", "kill"]


class Recorder:
    one_ring = ONE_RING

    def __init__(self, options):
        self.options = options
        self.backend = "gloo" if options.rehearse else "nccl"
        self.build = pathlib.Path(options.build).resolve()
        self.end = time.monotonic() + options.budget
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-record-"))
        self.environment = {**os.environ, "LOCKSTEP_SHARE_GPU": "1", "LOCKSTEP_CUDA": "strict",
                            "CUDA_VISIBLE_DEVICES": "0", "NCCL_DEBUG": "INFO",
                            "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET,GRAPH,TUNING"}
        self.steps = []

    def command(self, words, limit, extra=None):
        """Runs a command. Returns its exit code (124: out of time), and what it said."""
        limit = min(limit, max(1, self.end - time.monotonic()))
        child = subprocess.Popen([str(word) for word in words], env={**self.environment, **(extra or {})},
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 errors="replace", cwd=ROOT, start_new_session=True)
        try:
            said, _ = child.communicate(timeout=limit)
            return child.returncode, said
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            said, _ = child.communicate()
            return 124, said

    def ranks(self, n_ranks, arguments, limit, extra=None):
        program = self.build / "bin" / "lockstep_gpu_record"
        log = self.scratch / f"nccl-{len(self.steps)}.%p.log"
        return self.command([self.build / "bin" / "lockstep", "launch", "--standalone",
                             "--nproc-per-node", n_ranks, "--backend", self.backend, "--grace", 2,
                             "--", program, *arguments],
                            limit, {**(extra or {}), "NCCL_DEBUG_FILE": str(log)})

    def alone(self, n_ranks, arguments, limit, extra=None, meanwhile=None):
        """Ranks that no launcher ends when one of them dies. Returns their exit codes.

        meanwhile(running) is called while they run; running() says whether any still does.
        """
        program = self.build / "bin" / "lockstep_gpu_record"
        meeting = tempfile.mkdtemp(dir=self.scratch)
        end = time.monotonic() + min(limit, max(1, self.end - time.monotonic()))
        children = []
        for rank in range(n_ranks):
            place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": n_ranks, "LOCAL_WORLD_SIZE": n_ranks,
                     "LOCKSTEP_BACKEND": self.backend, "LOCKSTEP_RENDEZVOUS": meeting}
            children.append(subprocess.Popen(
                [str(word) for word in [program, *arguments]], cwd=ROOT, start_new_session=True,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env={**self.environment, **(extra or {}), **{name: str(value) for name, value in place.items()}}))
        if meanwhile:
            meanwhile(lambda: any(child.poll() is None for child in children))
        codes = []
        for child in children:
            try:
                codes.append(child.wait(max(0.1, end - time.monotonic())))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
                codes.append(124)
        return codes

    def rings_of_last_log(self):
        logs = sorted(self.scratch.glob(f"nccl-{len(self.steps)}.*.log"))
        code, said = self.command([self.build / "bin" / "lockstep", "nccl-log", *logs], 20) if logs else (1, "")
        return said.splitlines() if code == 0 else []

    def note(self, name, code, **more):
        self.steps.append({"step": name, "exit_code": code, **more})
        print(f"{name}: {'done' if code == 0 else f'exit code {code}'}", file=sys.stderr)

    def not_done(self, name, reason, **more):
        self.steps.append({"step": name, "exit_code": NOT_DONE, "said": f"not done: {reason}", **more})
        print(f"{name}: not done: {reason}", file=sys.stderr)

    @staticmethod
    def answer_of(file, rank):
        path = pathlib.Path(f"{file}.{rank}")
        return json.loads(path.read_text()) if path.exists() else {"status": "no answer"}

    def out_of_time(self, name):
        if time.monotonic() < self.end - 5:
            return False
        self.note(name, 124, said="not begun: no time left")
        return True

    # ---- the steps

    def machine(self):
        facts = {}
        for name, words in {
                "gpu": ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,compute_cap",
                        "--format=csv,noheader"],
                "nvcc": ["nvcc", "--version"], "kernel": ["uname", "-srm"],
                "shared memory": ["df", "-h", "/dev/shm"], "interfaces": ["ip", "-brief", "address"],
                "lockstep": ["git", "describe", "--always", "--dirty"]}.items():
            found = shutil.which(words[0]) is not None
            facts[name] = self.command(words, 20)[1].strip() if found else "(no such command)"
        facts["variables"] = {name: value for name, value in sorted(self.environment.items())
                              if name.startswith(("NCCL_", "LOCKSTEP_", "CUDA_"))}
        return facts

    def device_tests(self):
        """All of them but the one that starts this script."""
        if self.out_of_time("gpu tests"):
            return
        code, said = self.command(["ctest", "--test-dir", self.build, "-L", "gpu", "-E", "^gpu.record$",
                                   "--timeout", 60], 150)
        self.note("gpu tests", code, said=said.splitlines()[-12:])

    def cases(self, n_ranks, mode, launch, extra=None, limit=120):
        title = f"{n_ranks} ranks, {mode}, launch {launch}"
        if self.out_of_time(title):
            return None
        file = self.scratch / "cases.json"
        file.unlink(missing_ok=True)
        code, said = self.ranks(n_ranks, ["cases", title, file], limit, {**MODES[mode], **(extra or {})})
        log = self.rings_of_last_log()
        done = json.loads(file.read_text()) if code == 0 and file.exists() else None
        verdicts = {}
        for one in done["cases"] if done else []:
            verdicts[one["verdict"]] = verdicts.get(one["verdict"], 0) + 1
        self.note(title, code, verdicts=verdicts, nccl_log=log, said=said.splitlines()[-6:] if code else [])
        return done

    def refused_without_host_id(self):
        """Our own negative control: NCCL must refuse two ranks of one GPU on one host."""
        if self.backend != "nccl" or self.out_of_time("one host, one GPU, two ranks"):
            return
        code, said = self.ranks(2, ["cases", "refused", self.scratch / "none"], 60, {"NCCL_HOSTID": "same"})
        logs = "".join(p.read_text(errors="replace") for p in self.scratch.glob(f"nccl-{len(self.steps)}.*"))
        self.note("one host, one GPU, two ranks", 0 if "Duplicate GPU detected" in logs + said else 1,
                  said=said.splitlines()[-6:])

    def fault(self, name, checked):
        title = f"fault {name}, {'checked' if checked else 'unchecked'}"
        if self.out_of_time(title):
            return
        file = self.scratch / f"fault-{name}-{checked}"
        codes = self.alone(3, ["fault", name, file, 6, "checked" if checked else "unchecked"], 25, ONE_RING)
        by_rank = {str(rank): self.answer_of(file, rank) for rank in range(3)}
        answers = {one["status"] for one in by_rank.values()}
        wrong = any(one["status"] == "ok" and not one["right"] for one in by_rank.values())
        verdict = "silent and wrong" if wrong else ", ".join(sorted(answers))
        self.note(title, 124 if 124 in codes else 0, verdict=verdict, exit_codes=codes, by_rank=by_rank)

    def training(self, n_ranks):
        title = f"training, {n_ranks} ranks"
        if self.out_of_time(title):
            return
        code, said = self.command(
            [self.build / "bin" / "lockstep", "crosscheck", "tests/harness/crosscheck/mlp.toml", "--against",
             self.backend, "--nproc", n_ranks, "--set", "loop.steps=20"], 120, ONE_RING)
        self.note(title, code, said=said.splitlines()[-6:])

    def run(self):
        machine = self.machine()
        launches = []
        plan = [(1, "ring, simple, 1 channel", 0), (2, "ring, simple, 1 channel", 0),
                (3, "ring, simple, 1 channel", 0), (3, "ring, simple, 1 channel", 1),
                (3, "ring, simple, 1 channel", 2), (4, "ring, simple, 1 channel", 0)]
        plan += [(3, mode, 0) for mode in list(MODES)[1:]]
        self.refused_without_host_id()
        probes.torch_probe(self)
        for n_ranks, mode, launch in plan if not self.options.short else plan[:3]:
            done = self.cases(n_ranks, mode, launch)
            if done:
                launches.append(done)
        repeats = [one["cases"] for one in launches if one["title"].startswith("3 ranks, ring, simple, 1 ")]
        self.note("launches repeat", 0 if all(one == repeats[0] for one in repeats) else 1, n=len(repeats))
        for n_ranks in (2, 3):
            self.training(n_ranks)
        for name in FAULTS if not self.options.short else FAULTS[:1] + FAULTS[-1:]:
            for checked in (True, False):
                self.fault(name, checked)
        probes.ras_of_a_hang(self, 6 if self.options.short else 25)
        if self.backend == "nccl":
            self.device_tests()
        probes.check_kernels(self)
        return {"format": REHEARSAL if self.options.rehearse else FORMAT,
                "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
                "environment": machine, "steps": self.steps, "launches": launches}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="a build folder of this tree, with the command and lockstep_gpu_record")
    parser.add_argument("--out", default=ROOT / "gpu" / "recordings", type=pathlib.Path)
    parser.add_argument("--budget", default=540, type=float, help="seconds for everything (540)")
    parser.add_argument("--short", action="store_true", help="a few steps of each kind")
    parser.add_argument("--rehearse", action="store_true", help="over Gloo; needs --out")
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has PyTorch (this one)")
    options = parser.parse_args()
    if options.rehearse and options.out == parser.get_default("out"):
        parser.error("a rehearsal is not a recording: name another file with --out")
    recorder = Recorder(options)
    try:
        program = recorder.build / "bin" / "lockstep_gpu_record"
        code, said = recorder.command([program, "obstacle", recorder.backend], 60)
        if code != 0:
            print("gpu/record.py: " + said.strip().split(": ", 1)[-1], file=sys.stderr)
            return 3
        recording = recorder.run()
    finally:
        shutil.rmtree(recorder.scratch, ignore_errors=True)
    gpu = re.sub(r"[^a-z0-9]+", "-", recording["environment"]["gpu"].split(",")[0].lower()).strip("-")
    kind = "rehearsal" if options.rehearse else gpu
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{recording['date']}-{kind}.json"
    path.write_text(json.dumps(recording, indent=1) + "\n")
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
