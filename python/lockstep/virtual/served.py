"""Imported by multiprocessing's fork server, ahead of everything else: processes that it forks have PyTorch imported, and
become ranks when they open a process group (joining.py)."""
import os

from lockstep.virtual import joining, zygote

zygote.prepare()
joining.take_environment()
_server = os.getpid()
joining.arm(lambda: os.getpid() != _server)
