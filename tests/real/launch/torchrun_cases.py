"""Command lines that users type for torchrun and torch.distributed.launch, and what each makes of them:
the variables and arguments of every rank, the exit code, restarts, log files and what the terminal shows."""
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from real_processes import CLEAN

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
from ports import reserved_ports  # noqa: E402

TORCHRUN, LAUNCH = "torchrun", "torch.distributed.launch"

# What a rank does: it says what it sees, prints, and ends as its arguments ask for.
PROGRAM = """\
#!/usr/bin/env python3
import json, os, signal, sys, time
rank, world, attempt = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT"))
for stream, word in ((sys.stdout, "apple"), (sys.stderr, "pear")):
    stream.write(f"{word} {rank}\\n")  # At once: ranks may share a terminal, and print writes the end of a line by itself.
    stream.flush()
file = f"{os.environ['CASE_FOLDER']}/{attempt}."
with open(f"{file}{rank}.new", "w") as new:
    json.dump({"arguments": sys.argv[1:], "variables": dict(os.environ)}, new)
os.rename(f"{file}{rank}.new", f"{file}{rank}.json")
fails = "fail" in sys.argv and attempt < int(sys.argv[sys.argv.index("fail") + 1])
if rank == 0 and (fails or "kill" in sys.argv):
    while not all(os.path.exists(f"{file}{other}.json") for other in range(world)):
        time.sleep(0.01)
    if fails:
        sys.exit(3)
    os.kill(os.getpid(), signal.SIGKILL)
"""

VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
             "ROLE_NAME", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS",
             "CUDA_VISIBLE_DEVICES", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCHELASTIC_RESTART_COUNT",
             "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE",
             "TORCHELASTIC_SIGNALS_TO_HANDLE", "TORCHELASTIC_USE_AGENT_STORE")

EXIT_2 = "bad input is exit code 2 here, with one sentence; torchrun ends with a traceback and 1"
NO_EFFECT = "torchrun does not know the word; here a sentence says that it has no effect"
# What differs in every row, on purpose.
EVERYWHERE = ("TORCHELASTIC_USE_AGENT_STORE",)


@dataclass(frozen=True)
class Case:
    """PORT, LOGS and HERE in a line stand for a free port, an empty folder and that of the program."""

    line: str
    as_: str = TORCHRUN
    env: tuple = ()
    exit_code: str = ""  # Why ours differs from theirs, or empty.


CASES = (
    Case("--nproc-per-node 2 show.py a --b"),
    Case("--nproc_per_node=2 --master_port=PORT show.py"),
    Case("--nproc-per-node 2 --master-addr localhost --master-port PORT --rdzv-id job show.py"),
    Case("--standalone --nproc-per-node 2 show.py"),
    Case("--standalone --nnodes=1 --nproc_per_node=2 --rdzv_id=job show.py"),
    Case("--nnodes 1:1 --nproc-per-node 2 --rdzv-id job --rdzv-backend c10d --rdzv-endpoint localhost:PORT show.py"),
    Case("--rdzv-endpoint localhost:PORT --rdzv-id job show.py"),
    Case("--nnodes=1:2 --rdzv-backend=c10d --rdzv-endpoint=localhost:PORT --rdzv-conf=last_call_timeout=1 show.py"),
    Case("--nproc-per-node cpu show.py"),
    Case("--nproc-per-node auto show.py", env=(("CUDA_VISIBLE_DEVICES", ""),)),
    Case("--nproc-per-node gpu show.py", env=(("CUDA_VISIBLE_DEVICES", ""),), exit_code=EXIT_2),
    Case("--nproc-per-node two show.py", exit_code=EXIT_2),
    Case("--nproc-per-node 2 -m show a"),
    Case("--nproc-per-node 2 --no-python HERE/show.py a"),
    Case("--run-path HERE/show.py a --b"),
    Case("-m --no-python show", exit_code=EXIT_2),
    Case("--nproc-per-node 2 --role trainer show.py"),
    Case("--nproc-per-node 2 --virtual-local-rank show.py"),
    Case("--nproc-per-node 2 --virtual-local-rank show.py", env=(("CUDA_VISIBLE_DEVICES", "5,3"),)),
    Case("--nproc-per-node 2 --max-restarts 2 show.py fail 2"),
    Case("--nproc-per-node 2 --max-restarts 1 show.py fail 9"),
    Case("show.py fail 1"),
    Case("--nproc-per-node 2 show.py kill"),
    Case("nowhere.py"),
    Case("--nproc-per-node 2 --log-dir LOGS -r 3 show.py"),
    Case("--nproc-per-node 2 --log-dir LOGS -t 3 show.py"),
    Case("--nproc-per-node 2 --log-dir LOGS --redirects 0:1,1:2 --tee 1:1 show.py"),
    Case("--nproc-per-node 2 --log-dir LOGS -r 3 -t 1 --max-restarts 1 show.py fail 1"),
    Case("--nproc-per-node 2 --log-dir LOGS -t 3 --local-ranks-filter 1 show.py"),
    Case("--nproc-per-node 2 --local-ranks-filter 1 show.py"),
    Case("--nproc-per-node 2 --log-dir LOGS -t 3 --duplicate-stdout-filters=plum,1 "
         "--duplicate-stderr-filters=pear show.py"),
    Case("--redirects 9 show.py", exit_code=EXIT_2),
    Case("--start-method fork --monitor-interval 0.5 show.py"),
    Case("--start-method thread show.py"),
    Case("--signals-to-handle SIGTERM,SIGUSR1 show.py"),
    Case("--rdzv-backend static2 show.py", exit_code=EXIT_2),
    Case("--nprocs 2 show.py"),
    Case("--nproc-per-node 2"),
    Case("show.py", env=(("PET_NPROC_PER_NODE", "2"), ("PET_ROLE", "trainer"), ("OMP_NUM_THREADS", "3"))),
    Case("--max-restarts 1 --max-restarts 2 show.py -- --max-restarts 3"),
    Case("show.py a -- b"),
    Case("--use-env show.py", exit_code=NO_EFFECT),
    Case("--nproc-per-node 2 show.py a", as_=LAUNCH),
    Case("--nproc_per_node=2 --master_port=PORT --use_env show.py a", as_=LAUNCH),
    Case("--nproc-per-node 2 -m show a", as_=LAUNCH),
    Case("--no-python HERE/show.py", as_=LAUNCH, exit_code=EXIT_2),
    Case("--no-python --use-env HERE/show.py a", as_=LAUNCH),
)


def title(case):
    """Names a case in the golden file and on the page."""
    variables = "".join(f"{name}={value} " for name, value in case.env)
    return f"{variables}{case.as_} {case.line}"


def run(case, launcher):
    """What a launcher makes of a case: `launcher(words, folder, environment)` runs it there, and returns a CompletedProcess."""
    folder = Path(tempfile.mkdtemp(prefix="lockstep-torchrun-"))
    try:
        with reserved_ports() as port:
            return _run(case, launcher, folder, str(port))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(case, launcher, folder, port):
    logs, seen = folder / "logs", folder / "seen"
    for place in (logs, seen, folder / "tmp"):
        place.mkdir()
    program = folder / "show.py"
    program.write_text(PROGRAM, encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    line = case.line.replace("PORT", port).replace("LOGS", str(logs)).replace("HERE", str(folder))
    environment = {name: value for name, value in CLEAN.items() if name != "CUDA_VISIBLE_DEVICES"}
    environment.update(case.env, CASE_FOLDER=str(seen), TMPDIR=str(folder / "tmp"), PYTHONPATH=str(folder))
    done = launcher(line.split(), folder, environment)
    written = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(seen.glob("*.json"))}
    return {
        "exit code": done.returncode,
        "restarts": max((int(name.split(".")[0]) for name in written), default=0),
        "ranks": {name: _rank(one, port, folder) for name, one in written.items()},
        "files": _files(logs),
        "terminal": _terminal(done),
    }


def _rank(written, port, folder):
    variables = {name: written["variables"][name] for name in VARIABLES if name in written["variables"]}
    if variables["MASTER_PORT"] != port:
        variables["MASTER_PORT"] = "free" if variables["MASTER_PORT"].isdigit() else variables["MASTER_PORT"]
    else:
        variables["MASTER_PORT"] = "PORT"
    own = variables["TORCHELASTIC_RUN_ID"]
    if own not in ("none", "job"):
        variables["TORCHELASTIC_RUN_ID"] = "own"
    # .../RUN_ID and something random/attempt_K/LOCAL_RANK/error.json
    file = variables["TORCHELASTIC_ERROR_FILE"]
    variables["TORCHELASTIC_ERROR_FILE"] = re.sub(rf"^.*/{re.escape(own)}_[^/]+/", "RUN/", file)
    arguments = [word.replace(str(folder), "HERE") for word in written["arguments"]]
    return {"arguments": arguments, "variables": variables}


def _files(logs):
    """Path below the folder of the run, and lines in sorted order."""
    return {re.sub(r"^[^/]+_[^/]+/", "RUN/", str(path.relative_to(logs))):
            sorted(re.sub(r"^\[[^\]]*\][: ]", "", line) for line in path.read_text(encoding="utf-8").splitlines())
            for path in sorted(logs.rglob("*.log"))}


def _terminal(done):
    """The program's lines, without what the launcher puts in front of them."""
    found = []
    for stream, text in (("stdout", done.stdout), ("stderr", done.stderr)):
        lines = [re.sub(r"^\[[^\]]*\][: ]", "", line) for line in text.splitlines()]
        found += [f"{stream}: {line}" for line in lines if re.fullmatch(r"(apple|pear) \d", line)]
    return sorted(found)


def differences(ours, theirs):
    """One line for each thing that differs, whatever the reason."""
    found = []
    for name in ("exit code", "restarts", "files", "terminal"):
        if ours[name] != theirs[name]:
            found.append(f"{name}: {ours[name]} here, {theirs[name]} there")
    if sorted(ours["ranks"]) != sorted(theirs["ranks"]):
        return [*found, f"ranks: {sorted(ours['ranks'])} here, {sorted(theirs['ranks'])} there"]
    for rank, own in ours["ranks"].items():
        other = theirs["ranks"][rank]
        if own["arguments"] != other["arguments"]:
            found.append(f"arguments of {rank}: {own['arguments']} here, {other['arguments']} there")
        for name in VARIABLES:
            if own["variables"].get(name) != other["variables"].get(name):
                found.append(f"{name} of {rank}: {own['variables'].get(name)} here, "
                             f"{other['variables'].get(name)} there")
    return found


def unexplained(case, ours, theirs):
    """Differences for which no reason is given; a reason without a difference is one, too."""
    found = differences(ours, theirs)
    kept = [line for line in found if not line.startswith(EVERYWHERE)]
    if case.exit_code:
        if not any(line.startswith("exit code: ") for line in kept):
            kept.append("a reason is given for another exit code, and there is none")
            return kept
        kept = [line for line in kept if not line.startswith("exit code: ")]
        if case.exit_code == NO_EFFECT:  # Ranks that only one of them starts.
            kept = [line for line in kept if not line.startswith(("ranks: ", "terminal: "))]
    return kept


def module(case):
    """PyTorch's launcher."""
    return "torch.distributed.run" if case.as_ == TORCHRUN else case.as_


def process(*command):
    """A launcher that is a command."""
    def launcher(words, folder, environment):
        return subprocess.run([*command, *words], cwd=folder, env=environment, capture_output=True, text=True,
                              timeout=240, check=False)
    return launcher


def theirs(case, python):
    """PyTorch's launcher, by the interpreter that has it."""
    return process(python, "-m", module(case))


def ours(case, lockstep):
    """The same command line, given to `lockstep launch`."""
    return process(lockstep, "launch", *(["--as", case.as_] if case.as_ != TORCHRUN else []))
