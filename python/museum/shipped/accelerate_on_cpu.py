"""Runs one of Accelerate's own test scripts on the CPU: without a GPU its state is one process, unless it
was made for the CPU before anything else asks for it.

  accelerate_on_cpu.py NAME
"""
import runpy
import sys

from accelerate import PartialState

PartialState(cpu=True)
name = sys.argv.pop(1)
runpy.run_module(f"accelerate.test_utils.scripts.{name}", run_name="__main__", alter_sys=True)
