"""What tests with real launchers share: a clean environment, and who is still there."""
import os
import shutil
import subprocess
from pathlib import Path

# What a launcher must not have inherited from the one that runs this test. A defect that `./dev mutate` switches on
# stays on.
CLEAN = {name: value for name, value in os.environ.items()
         if (not name.startswith(("OMP_", "TORCH", "LOCKSTEP_", "MASTER_", "PET_")) or
             name.startswith("LOCKSTEP_MUTANT"))
         and name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}


def processes_of(marker):
    """Process ids whose command line or environment names `marker`; zombies have neither."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            text = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:
            continue
        if marker.encode() in text:
            found.append(int(folder.name))
    return found


def torchrun():
    """The real one, or None."""
    for path in (shutil.which("torchrun"), "/usr/bin/torchrun"):
        if path and os.access(path, os.X_OK):
            probe = subprocess.run([path, "--help"], capture_output=True, env=CLEAN, check=False)
            if probe.returncode == 0:
                return path
    return None
