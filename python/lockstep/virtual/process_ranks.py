"""multiprocessing.Process under `lockstep run`: an ordinary process, started as Python starts it, that becomes a rank
when it opens a process group.

How many ranks there are, and which of the processes are ranks, is known no earlier: each says who it wants to be, and
waits until as many have come as it wants to be among (meeting.py). `spawn` is served by multiprocessing's own fork server,
which has PyTorch imported (fork_server.py) and nothing of the script, so that what is pickled and imported is what `spawn` does."""
from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
import sys
import threading
import time
from multiprocessing import context, popen_fork, popen_forkserver, process, queues
from multiprocessing import spawn as multiprocessing_spawn
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlparse

import torch.distributed as dist

from lockstep.exception_text import text_of
from lockstep.torch.sites import site
from lockstep.virtual import pretended, random_state, rank
from lockstep.virtual.arena import map_passed
from lockstep.virtual.connection import Refused, Stopped
from lockstep.virtual.meeting import GoesOn, Notice, Started, Waits, Wanted, knock
from lockstep.virtual.redirect import SCHEMES
from lockstep.virtual.spawn_request import Files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MEETING = "LOCKSTEP_MEETING"  # Names the folder to the fork server, which is a program of its own.
_ENVIRONMENT = "lockstep_environment"
_MULTIPROCESSING = os.path.dirname(multiprocessing.__file__)
_POLL_S = 0.005


# -- in the process of the script
def install(end: socket.socket, folder: str, seed: int, gpus: int) -> None:
    """From now on what the script starts may become ranks.

    Args:
        end: what the script does is reported through it.
        gpus: that the script and what it starts seem to have; 0: none.
    """
    os.environ[MEETING] = f"{seed}:{gpus}:{folder}"
    script, files = os.getpid(), Files(folder)

    def notify(notice: Notice) -> None:
        if os.getpid() == script:
            end.send(pickle.dumps(notice))

    class Watched(popen_fork.Popen):
        """What is common to both kinds: the meeting knows of the process, and of who waits for it."""

        def __init__(self, process_obj: Any) -> None:
            super().__init__(process_obj)
            frame = sys._getframe(1)
            while frame.f_back is not None and frame.f_code.co_filename.startswith((_MULTIPROCESSING, __file__)):
                frame = frame.f_back
            file, line = site(frame)
            notify(Started(self.pid, f"{file}:{line}"))

        def poll(self, flag: int = os.WNOHANG) -> int | None:
            if self.returncode is not None or flag == os.WNOHANG:
                code = super().poll(flag)
            else:
                notify(Waits(self.pid) if _is_alone() else GoesOn())
                code = super().poll(flag)
                notify(GoesOn())
            if code and os.getpid() == script:
                _require_that_others_went_on(files, self.pid)
            return code

    class Forked(Watched):
        pass

    class Served(Watched, popen_forkserver.Popen):
        method = "spawn"

    def served(process_obj: Any) -> Any:
        return (Served if os.getpid() == script else popen_forkserver.Popen)(process_obj)

    def forked(process_obj: Any) -> Any:
        return (Forked if os.getpid() == script else popen_fork.Popen)(process_obj)

    multiprocessing.set_forkserver_preload(["lockstep.virtual.fork_server"])
    _put_environment_along()
    for name, popen in (("SpawnProcess", served), ("ForkServerProcess", served), ("ForkProcess", forked)):
        getattr(context, name)._Popen = staticmethod(popen)
    arm(lambda: os.getpid() != script)


def _is_alone() -> bool:
    """Whether no other thread of the script could start a process."""
    # That of a queue only writes what was put into it.
    return all(thread is threading.current_thread() or getattr(thread, "_target", None) is queues.Queue._feed  # type: ignore[attr-defined]
               for thread in threading.enumerate())


def _put_environment_along() -> None:
    """Processes of a fork server have its environment, those that are spawned have the script's."""
    real = multiprocessing_spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        return {**real(name), _ENVIRONMENT: dict(os.environ)}

    multiprocessing_spawn.get_preparation_data = get_preparation_data


def _require_that_others_went_on(files: Files, pid: int) -> None:
    """A process ended badly. Where it was a rank, the script learns of it once all ranks have ended, and never where they
    could not go on: then they were ended for it, and the script would have waited forever."""
    taken = files.taken(pid)
    if not taken.exists():
        return
    number = int(taken.read_text())
    while (outcome := files.outcome_of(number)) is None:
        time.sleep(_POLL_S)
    if outcome.found["outcome"] in ("ok", "failed"):
        return
    sys.stdout.flush()
    sys.stderr.flush()
    for child in list(process._children):  # type: ignore[attr-defined]  # active_children() would come back here.
        child.kill()
    os._exit(rank.EXIT_STOPPED)


# -- in the fork server
def take_environment() -> None:
    """What the script's process had in its environment is what a process that it starts finds."""
    real = multiprocessing_spawn.prepare

    def prepare(data: Any) -> None:
        environment = data.get(_ENVIRONMENT)
        if environment is not None:
            os.environ.clear()
            os.environ.update(environment)
        real(data)

    multiprocessing_spawn.prepare = prepare


# -- in a process that the script started, which may become a rank
def arm(may_join: Callable[[], bool]) -> None:
    """Prepares processes that are forked from this one.

    Args:
        may_join: False in the process of the script.
    """
    seed, gpus, folder = os.environ[MEETING].split(":", 2)
    pretended.install(int(gpus))
    real: Any = process.BaseProcess._bootstrap  # type: ignore[attr-defined]

    def _bootstrap(self: Any, *args: Any, **given: Any) -> int:
        ending = _Ending()
        self.run = ending.around(self.run)
        index = self._identity[-1] - 1
        random_state.seed_rank(int(seed), index, 0, forked=self._start_method == "fork")
        return ending.end(int(real(self, *args, **given)))

    process.BaseProcess._bootstrap = _bootstrap  # type: ignore[attr-defined]
    _install_rendezvous(folder, may_join)
    _refuse_stores()


class _Ending:
    """How the function of a process ended."""

    def __init__(self) -> None:
        self._text = ""

    def around(self, run: Callable[[], None]) -> Callable[[], None]:
        def wrapped() -> None:
            try:
                run()
            except Stopped:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(rank.EXIT_STOPPED)
            except SystemExit:
                raise
            except BaseException as error:
                self._text = text_of(error)
                raise
        return wrapped

    def end(self, code: int) -> int:
        """The rank, if the process has become one, says how it ended."""
        this = rank.current()
        if this is None:
            return code
        try:
            rank.end_with(this, code, self._text or (f"exit code {code}" if code else ""))
        except Stopped:
            return rank.EXIT_STOPPED
        return code


def _install_rendezvous(folder: str, may_join: Callable[[], bool]) -> None:
    handlers = sys.modules["torch.distributed.rendezvous"]._rendezvous_handlers  # type: ignore[attr-defined]

    def join_first(scheme: str, real: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def rendezvous(url: str, timeout: Any = None, **given: Any) -> Iterator[Any]:
            wanted = _wanted(url)
            if wanted is None:  # PyTorch says what is missing.
                return real(url, timeout, **given) if timeout is not None else real(url, **given)
            if not may_join():
                raise Refused(f"init_process_group of rank {wanted.rank} of {wanted.world} in the process that starts the others: "
                              "not simulated; start every rank as a process of its own")
            _join(folder, wanted)
            return handlers[scheme](url, timeout, **given)  # type: ignore[no-any-return]
        return rendezvous

    for scheme in SCHEMES:
        handlers[scheme] = join_first(scheme, handlers[scheme])


def _wanted(url: str) -> Wanted | None:
    """Which rank the process wants to be; None: it does not say."""
    parts = urlparse(url)
    query = {key: values[0] for key, values in parse_qs(parts.query).items()}
    environment = dict(os.environ) if parts.scheme == "env" else {}
    found = [query.get(key, environment.get(variable, "")) for key, variable in (("rank", "RANK"), ("world_size", "WORLD_SIZE"))]
    needed = ("MASTER_ADDR", "MASTER_PORT") if parts.scheme == "env" else ()
    if not all(number.isdigit() for number in found) or any(name not in environment for name in needed):
        return None
    file, line = site(sys._getframe(2))
    return Wanted(os.getpid(), int(found[0]), int(found[1]), f"{file}:{line}")


def _join(folder: str, wanted: Wanted) -> None:
    """Waits until all ranks have come, and becomes the one that is wanted. Raises Refused."""
    message, descriptors = knock(Files(folder), wanted)
    if not descriptors:
        raise Refused(message.decode() or "no ranks meet here any more: the run has ended")
    place, settings, n_bytes = pickle.loads(message)
    own, memory = descriptors
    rank.become(place, socket.socket(fileno=own), map_passed(memory, n_bytes), settings)


def _refuse_stores() -> None:
    """A store that the script made would reach real processes, which are not simulated."""
    real: Callable[..., None] = dist.init_process_group

    def init_process_group(*args: Any, **given: Any) -> None:
        if rank.current() is None and (given.get("store") is not None or len(args) > 5 and args[5] is not None):
            raise Refused("init_process_group with a store that the script has made, in a process of multiprocessing.Process: not "
                          "simulated; give it an init_method, or MASTER_ADDR and MASTER_PORT")
        real(*args, **given)

    for module in (dist, dist.distributed_c10d):
        setattr(module, "init_process_group", init_process_group)
