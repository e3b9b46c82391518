"""Imported by multiprocessing's fork server, ahead of everything else: processes that it forks have PyTorch imported, and
become ranks when they open a process group (process_ranks.py)."""
import os

from lockstep.virtual import process_ranks, zygote

zygote.prepare()
process_ranks.take_environment()
_server = os.getpid()
process_ranks.arm(lambda: os.getpid() != _server)
