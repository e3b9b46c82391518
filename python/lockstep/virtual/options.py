"""The command line of `lockstep torchrun`: torchrun's options, and Lockstep's own."""
from __future__ import annotations

import argparse
import math
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep import _core
from lockstep.command_line import Parser, Usage, seconds, whole
from lockstep.virtual import known_words
from lockstep.virtual.clock import ClockMode
from lockstep.virtual.device import Device, UnknownDevice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.virtual.step_values import Watch

ABOUT = """\
Runs an unmodified PyTorch script as virtual ranks on this machine, simulated on the CPU:

  lockstep torchrun --nproc-per-node 4 train.py --epochs 2

Every call of torch.distributed goes to one coordinator, which sees at once that no rank can go on, and
says where each of them waits. What the ranks did is recorded, and judged by the laws afterwards."""

ABOUT_ALONE = """\
Runs an unmodified PyTorch script that starts its ranks itself, as `python train.py` would:

  lockstep run train.py --epochs 2

The processes that torch.multiprocessing.spawn or start_processes starts are virtual ranks, as those of
`lockstep torchrun` are, and so are processes of multiprocessing.Process that open a process group; the script itself is
an ordinary process."""

# Options of torchrun that choose real machines, processes or files: accepted, and without an effect.
_WITHOUT_EFFECT = ("--rdzv-backend", "--rdzv-endpoint", "--rdzv-conf", "--monitor-interval",
                   "--start-method", "--role", "--local-addr", "--redirects", "-r", "--tee", "-t",
                   "--local-ranks-filter", "--node-rank", "--event-log-handler", "--numa-binding",
                   "--signals-to-handle")
_FLAGS_WITHOUT_EFFECT = ("--standalone", "--no-rdzv")


ARENA_MB = 4096
MOST_RANKS = 1 << 20
MOST_SEED = (1 << 64) - 1
MOST_ARENA_MB = 1 << 26  # Half of the address space of a process.
MOST_TIMES = (1 << 31) - 1  # Of runs, restarts and steps.
_times = whole(0, MOST_TIMES)
TornSave = tuple[int, int, int]  # Rank, its save, percent of the bytes that are written.


@dataclass(frozen=True)
class Options:
    ranks: int
    per_node: int
    nodes: int
    program: str
    arguments: tuple[str, ...]
    is_module: bool
    run_id: str
    master: tuple[str, str]
    max_restarts: int
    log_folder: str
    serial: bool
    seed: int
    strategy: str
    order: str
    pairing: str
    faults: tuple[str, ...]
    expire: bool
    clock: ClockMode
    device: Device
    trace: str
    record: bool
    explore: int
    twice: bool
    preload: tuple[str, ...]
    arena_mb: int
    wall_limit_ms: int
    prefix: bool
    allow: tuple[str, ...]
    buffers: str
    steps: int = 0  # 0 = as many as the script takes.
    shrink: bool = False
    separate: bool = False
    as_one_rank: bool = False  # The script is run once more as one rank, and the two are compared.
    watch: Watch | None = None
    alone: bool = False  # The script starts its ranks itself.
    # Of the ranks that it starts:
    spawned: bool = False
    inherits_random: bool = False  # Forked from the script's process.

    @property
    def torn(self) -> tuple[TornSave, ...]:
        """Of the planned faults those that a rank does to itself. Raises ValueError for a rank that there is not."""
        return tuple(_core.torn_saves(list(self.faults), self.ranks))


def _both(name: str) -> tuple[str, str]:
    """torchrun takes hyphens and underscores."""
    return f"--{name}", f"--{name.replace('-', '_')}"


def _parser_alone() -> argparse.ArgumentParser:
    parser = Parser("lockstep run", description=ABOUT_ALONE, allow_abbrev=False,
                     formatter_class=argparse.RawDescriptionHelpFormatter)
    pythons = parser.add_argument_group("Python's options")
    pythons.add_argument("-m", "--module", action="store_true", help="SCRIPT is a module, as with python -m")
    pythons.add_argument(*_both("log-dir"), default="", metavar="DIR", help="what ranks print goes there as well")
    parser.set_defaults(nproc_per_node="1", nnodes="1", rdzv_id="none", master_addr="", master_port="", max_restarts=0,
                        no_python=False, run_path=False)
    _add_rest(parser)
    return parser


def _parser() -> argparse.ArgumentParser:
    parser = Parser("lockstep torchrun", description=ABOUT, allow_abbrev=False,
                     formatter_class=argparse.RawDescriptionHelpFormatter)
    theirs = parser.add_argument_group("torchrun's options")
    theirs.add_argument(*_both("nproc-per-node"), default="1", metavar="N", help="ranks of a node (%(default)s)")
    theirs.add_argument("--nnodes", default="1", metavar="N", help="nodes, all simulated here (%(default)s)")
    theirs.add_argument("-m", "--module", action="store_true", help="SCRIPT is a module, as with python -m")
    theirs.add_argument(*_both("rdzv-id"), default="none", metavar="ID", help="TORCHELASTIC_RUN_ID")
    theirs.add_argument(*_both("master-addr"), default="127.0.0.1", metavar="HOST", help="MASTER_ADDR")
    theirs.add_argument(*_both("master-port"), type=whole(0, 65535), default=29500, metavar="PORT", help="MASTER_PORT")
    theirs.add_argument(*_both("max-restarts"), type=_times, default=0, metavar="N",
                        help="starts all ranks again so often after one failed (%(default)s)")
    theirs.add_argument(*_both("log-dir"), default="", metavar="DIR", help="what ranks print goes there as well")
    for name in _WITHOUT_EFFECT:
        names = _both(name[2:]) if name.startswith("--") else (name,)
        theirs.add_argument(*dict.fromkeys(names), metavar="X", help=argparse.SUPPRESS)
    for name in _FLAGS_WITHOUT_EFFECT:
        theirs.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    for name in ("--no-python", "--run-path"):
        theirs.add_argument(*_both(name[2:]), action="store_true", help=argparse.SUPPRESS)
    _add_rest(parser)
    return parser


def _add_rest(parser: argparse.ArgumentParser) -> None:
    _add_own(parser.add_argument_group("Lockstep's options"))
    parser.add_argument("program", metavar="SCRIPT")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS")


def _add_own(own: argparse._ArgumentGroup) -> None:
    own.add_argument("--serial", action="store_true",
                     help="one rank computes at a time, and the strategy decides which")
    own.add_argument("--seed", type=whole(0, MOST_SEED), default=0, metavar="S",
                     help="of the schedule, of generators that a script does not seed, and of transfers (%(default)s)")
    own.add_argument("--strategy", default="", metavar="NAME",
                     help="how a schedule is chosen, or a schedule's token (docs/schedules.md); random with --serial "
                          "and --explore")
    own.add_argument("--order", default="gloo-ring", metavar="ORDER",
                     help="in which order sums are taken: gloo-ring (%(default)s), rank, nccl-ring:...")
    own.add_argument("--pairing", default="strict", choices=("strict", "gloo_like", "nccl_like"),
                     help="what calls that do not match lead to (%(default)s)")
    own.add_argument("--fault", action="append", default=[], metavar="KIND:RANK:CALL[:AMOUNT]",
                     help="a planned fault, such as drop:2:6; may be repeated")
    own.add_argument("--fault-file", default="", metavar="FILE",
                     help="planned faults, one per line, after those of --fault; # begins a comment")
    own.add_argument("--steps", type=_times, default=0, metavar="N",
                     help="ends each rank after the N-th step of one of its optimizers")
    own.add_argument("--shrink", action="store_true",
                     help="makes a job that fails smaller: fewer faults, ranks and steps; --explore always does")
    own.add_argument("--separate", action="store_true",
                     help="each rank has an interpreter of its own, with a hash seed of its own, as under torchrun: a "
                          "slower start")
    own.add_argument("--ranks", default="", metavar="1",
                     help="runs the script once more as one rank on the same global batches, and compares the gradients "
                          "of the first steps: the law single-process-equal")
    own.add_argument("--expire", action="store_true",
                     help="PyTorch's timeouts pass in virtual time; otherwise a verdict comes in their place")
    own.add_argument("--clock", default="real", choices=[mode.value for mode in ClockMode],
                     help="what time.time() shows: real (%(default)s) or virtual")
    own.add_argument("--device", default="cpu", metavar="DEVICE",
                     help="cpu (%(default)s), or cpu-as-cuda: scripts for GPUs run on the CPU; cpu-as-cuda:N: "
                          "each node seems to have N of them")
    own.add_argument("--trace", default="", metavar="DIR", help="keeps the trace in DIR")
    own.add_argument("--no-record", action="store_true", help="records nothing: only the verdict is given")
    own.add_argument("--explore", type=_times, default=0, metavar="N", help="runs N serial schedules")
    own.add_argument("--twice", action="store_true", help="runs twice and compares what was recorded")
    own.add_argument("--preload", default="", metavar="A,B", help="modules to import once, before the ranks start")
    own.add_argument("--arena-mb", type=whole(1, MOST_ARENA_MB), default=ARENA_MB, metavar="MIB",
                     help="address space for each rank's calls under way (%(default)s)")
    own.add_argument("--wall-limit", type=seconds, default=0.0, metavar="SECONDS",
                     help="a rank that sleeps outside Lockstep's calls for so long is stuck (default: never); one that "
                          "computes is waited for, however long")
    own.add_argument("--no-prefix", action="store_true", help="prints what ranks print as it is")
    own.add_argument("--allow", action="append", default=[], metavar="LAW[@TENSOR]", help="exempts it")
    own.add_argument("--buffers", default="", metavar="POLICY", help="what buffers were meant to be")


def parse(arguments: Sequence[str], alone: bool = False) -> Options:
    """Raises Usage, and SystemExit for --help.

    Args:
        alone: of `lockstep run`: the script starts its ranks itself.
    """
    given = (_parser_alone() if alone else _parser()).parse_args(list(arguments))
    nodes = _count("--nnodes", given.nnodes)
    per_node = _count("--nproc-per-node", given.nproc_per_node)
    _check(given, alone, nodes * per_node)
    return Options(
        ranks=nodes * per_node, per_node=per_node, nodes=nodes, program=given.program,
        arguments=tuple(given.arguments), is_module=given.module, run_id=given.rdzv_id,
        master=(given.master_addr, str(given.master_port)), max_restarts=given.max_restarts,
        log_folder="" if given.log_dir == os.devnull else given.log_dir,  # As torchrun has it.
        serial=given.serial or given.explore > 0, seed=given.seed,
        strategy=given.strategy or ("random" if given.serial or given.explore else ""), order=given.order,
        pairing=given.pairing,
        faults=_faults(given, MOST_RANKS if alone else nodes * per_node), steps=given.steps,
        shrink=given.shrink, separate=given.separate, as_one_rank=bool(given.ranks), expire=given.expire,
        clock=ClockMode(given.clock), device=Device.parse(given.device), trace=given.trace,
        record=not given.no_record, explore=given.explore, twice=given.twice,
        preload=tuple(name for name in given.preload.split(",") if name), arena_mb=given.arena_mb,
        wall_limit_ms=math.ceil(given.wall_limit * 1000), prefix=not given.no_prefix,
        allow=tuple(given.allow), buffers=given.buffers, alone=alone)


def _check(given: argparse.Namespace, alone: bool, ranks: int) -> None:
    """Raises Usage for what does not go together, or is not simulated."""
    for name in ("no_python", "run_path"):
        if getattr(given, name):
            raise Usage(f"--{name.replace('_', '-')}: not simulated: ranks are forked from a process that has PyTorch "
                        "imported")
    try:
        Device.parse(given.device)
    except UnknownDevice as error:
        raise Usage(f"--device {given.device}: {error}") from None
    if ranks > MOST_RANKS:
        raise Usage(f"{ranks} ranks: must be {MOST_RANKS} or fewer")
    if given.seed > MOST_SEED - given.explore:
        raise Usage(f"--seed {given.seed}: the seeds of {given.explore} schedules go beyond {MOST_SEED}")
    if given.separate and (alone or given.preload):
        raise Usage("--separate: not simulated " + ("for ranks that a script starts itself" if alone else
                                                    "with --preload: nothing is shared between the interpreters"))
    _check_as_one_rank(given, alone, ranks)
    if not given.module and not os.path.isfile(given.program):
        raise Usage(f"{given.program}: no such file")
    if given.no_record and (given.trace or given.twice):
        raise Usage("--no-record: --trace and --twice need what is recorded")
    if given.log_dir != os.devnull and os.path.exists(given.log_dir) and not os.path.isdir(given.log_dir):
        raise Usage(f"--log-dir {given.log_dir}: is not a folder")
    try:
        known_words.require(order=given.order, strategy=given.strategy, pairing=given.pairing, allow=given.allow,
                            buffers=given.buffers)
    except known_words.Unknown as error:
        raise Usage(f"--{error.option}: {error}") from None


def _check_as_one_rank(given: argparse.Namespace, alone: bool, ranks: int) -> None:
    if not given.ranks:
        return
    if given.ranks != "1":
        raise Usage(f"--ranks {given.ranks}: not simulated: the job is compared with one rank, --ranks 1")
    if alone or ranks == 1:
        raise Usage("--ranks 1: " + ("not simulated for ranks that a script starts itself" if alone else
                                     "the job has one rank already; say how many with --nproc-per-node"))
    for name, value in (("--fault", given.fault or given.fault_file), ("--explore", given.explore), ("--steps", given.steps),
                        ("--max-restarts", given.max_restarts), ("--shrink", given.shrink), ("--twice", given.twice)):
        if value:
            raise Usage(f"--ranks 1: not simulated together with {name}")


def _faults(given: argparse.Namespace, ranks: int) -> tuple[str, ...]:
    """All planned faults: those of the command line, then those of the file."""
    words = [("--fault", fault) for fault in given.fault]
    if given.fault_file:
        words += _faults_of_file(given.fault_file)
    for place, fault in words:
        try:
            _core.torn_saves([fault], ranks)
        except ValueError as error:
            raise Usage(f"{place}: {error}") from None
    return tuple(fault for _, fault in words)


def _faults_of_file(path: str) -> list[tuple[str, str]]:
    """Where each is, and the fault."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise Usage(f"--fault-file {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise Usage(f"--fault-file {path}: {error}") from None
    found = []
    for number, line in enumerate(lines, 1):
        fault = line.partition("#")[0].strip()
        if fault:
            found.append((f"{path}:{number}:{line.index(fault) + 1}", fault))
    return found


def _count(name: str, text: str) -> int:
    if text == "cpu" and name == "--nproc-per-node":
        return os.cpu_count() or 1
    if re.fullmatch(r"0*[1-9][0-9]{0,9}", text) is None:
        raise Usage(f"{name} {text}: must be a number from 1 to {MOST_RANKS}; ranges, 'auto' and 'gpu' are not simulated")
    return int(text)


def command_of(given: Options) -> str:
    """The command line that runs such a job once."""
    words = ["lockstep", "run" if given.alone else "torchrun"]
    if not given.alone:
        words += ["--nproc-per-node", str(given.per_node)]
        words += _word("--nnodes", given.nodes, 1) + _word("--rdzv-id", given.run_id, "none")
        words += _word("--master-addr", given.master[0], "127.0.0.1") + _word("--master-port", given.master[1], "29500")
        words += _word("--max-restarts", given.max_restarts, 0)
    for fault in given.faults:
        words += ["--fault", fault]
    words += _word("--steps", given.steps, 0) + ["--serial"] * given.serial + _word("--seed", given.seed, 0)
    words += _word("--strategy", given.strategy, "random" if given.serial else "")
    words += _word("--order", given.order, "gloo-ring") + _word("--pairing", given.pairing, "strict")
    words += ["--ranks", "1"] * given.as_one_rank
    words += ["--separate"] * given.separate + ["--expire"] * given.expire + ["--no-record"] * (not given.record)
    words += _word("--clock", given.clock.value, ClockMode.REAL.value) + _word("--device", str(given.device), "cpu")
    words += _word("--preload", ",".join(given.preload), "") + _word("--arena-mb", given.arena_mb, ARENA_MB)
    words += _word("--wall-limit", given.wall_limit_ms / 1000, 0) + _word("--buffers", given.buffers, "")
    for law in given.allow:
        words += ["--allow", law]
    return shlex.join([*words, *["-m"] * given.is_module, given.program, *given.arguments])


def _word(name: str, value: object, usual: object) -> list[str]:
    return [] if value == usual else [name, str(value)]
