"""Python imports this at its start when `lockstep record` has put its folder on PYTHONPATH."""
import importlib
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _run_the_next() -> None:
    """Another sitecustomize, which this one hides, still runs."""
    sys.path[:] = [place for place in sys.path if os.path.abspath(place or ".") != _HERE]
    sys.modules.pop("sitecustomize", None)
    if importlib.util.find_spec("sitecustomize") is not None:
        importlib.import_module("sitecustomize")


try:
    sys.path.append(os.path.dirname(os.path.dirname(_HERE)))  # Where the package lies.
    from lockstep.autostart import arm
    arm()
except Exception as error:  # A job never fails for its recorder.
    print(f"lockstep: nothing is recorded: {error}", file=sys.stderr)
_run_the_next()
