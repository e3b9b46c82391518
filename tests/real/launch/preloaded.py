#!/usr/bin/env python3
"""A process that has imported PyTorch's launchers forks one for each command line: imports take them two seconds each.

usage: preloaded.py     with PyTorch's interpreter: a request per line of the standard input (JSON), an exit code per line
"""
import atexit
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import traceback

PATIENCE_S = 240


class Preloaded:
    """The other end: runs command lines, one at a time."""

    def __init__(self, python):
        self._process = subprocess.Popen([python, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.communicate()

    def run(self, module, words, folder, environment):
        """As `python -m module words`. Returns a CompletedProcess."""
        outputs = [str(folder / name) for name in ("tmp/stdout", "tmp/stderr")]
        print(json.dumps([module, words, str(folder), environment, outputs]), file=self._process.stdin, flush=True)
        code = int(self._process.stdout.readline())
        texts = []
        for path in outputs:
            with open(path, encoding="utf-8") as file:
                texts.append(file.read())
        return subprocess.CompletedProcess(words, code, *texts)


def be_launcher(module, words, folder, environment, outputs):
    signal.alarm(PATIENCE_S)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in enumerate((os.devnull, *outputs)):
        opened = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = [module, *words]
    sys.path[0] = folder
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def ended(launcher, *request):
    """The exit code that the interpreter would have. Its own end, which frees all that was imported, takes half a second."""
    code = 0
    try:
        launcher(*request)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def serve():
    import torch.distributed.launch  # noqa: F401
    import torch.distributed.run  # noqa: F401

    gc.freeze()  # A collection in a launcher would copy the pages of all that is loaded here.
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os._exit(ended(be_launcher, *json.loads(line)))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
