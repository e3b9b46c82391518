"""One of accelerate's own test scripts. Without this, a machine without GPUs is one process to it."""
import os, sys, importlib
os.environ["ACCELERATE_USE_CPU"] = "true"
from accelerate import PartialState
PartialState(cpu=True)
name = sys.argv.pop(1)
importlib.import_module(f"accelerate.test_utils.scripts.{name}").main()
