"""Descriptors for ranks: how many a process needs, and may have."""
from __future__ import annotations

import errno
import resource

PER_RANK = 6  # The ends of a socket, and of pipes for its output and its errors.
OTHERS = 128  # What a process has open besides.


def require(n_ranks: int, memory_passed: bool = False) -> None:
    """Lets this process open what it needs for this many ranks, one more for each if memory is passed to it.

    Errors: OSError (EMFILE) before anything is made for a rank, where the limit that only root can raise is lower.
    """
    needed = n_ranks * (PER_RANK + memory_passed) + OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise OSError(errno.EMFILE, f"Too many open files: {n_ranks} ranks need {needed} descriptors, and this process may "
                                    f"have {hard} (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
