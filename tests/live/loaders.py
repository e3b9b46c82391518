"""What the DataLoader yields with real worker processes: batches, orders and worker-side draws."""

import pathlib
import sys

import live

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
import make_loaders  # noqa: E402  pylint: disable=C0413


def pairs(rng):
    """Starting processes is slow: one case in three has workers."""
    while True:
        case = make_loaders.one_case(rng, max_workers=rng.choice([0, 0, 4]))
        yield make_loaders.text_of(case), make_loaders.passes(case)


live.run("loaders", pairs)
