"""Whether this is a soak (`./dev soak`), which runs what the daily tests leave out."""
import os

SOAK = bool(os.environ.get("LOCKSTEP_SOAK"))
