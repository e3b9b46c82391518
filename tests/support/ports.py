"""Ports for tests of processes that meet on one."""

import contextlib
import socket


@contextlib.contextmanager
def reserved_ports(n=1):
    """The first of `n` ports in a row, on which a process of this test may listen. The system gives them to no other
    process meanwhile."""
    with contextlib.ExitStack() as holders:
        first = _hold(holders, 0)
        while not all(_hold(holders, first + i) for i in range(1, n)):
            holders.close()
            first = _hold(holders, 0)
        yield first


def _hold(holders, port):
    """A bound port, or None. It is bound and does not listen: a listener that reuses addresses may have it, too."""
    holder = holders.enter_context(socket.socket())
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        holder.bind(("127.0.0.1", port))
    except (OSError, OverflowError):
        return None
    return holder.getsockname()[1]
