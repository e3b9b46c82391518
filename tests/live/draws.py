"""What the CPU generator draws, distribution by distribution, and what named schemes fill with."""

import pathlib
import sys

import live

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
import make_draws  # noqa: E402  pylint: disable=C0413


def pairs(rng):
    while True:
        what = rng.randrange(8)
        if what == 0:
            line = make_draws.one_permutation(rng)[0]
        elif what == 1:
            line = make_draws.one_multinomial(rng)[0]
        elif what <= 3:
            line = make_draws.one_init(*rng.choice(make_draws.SCHEMES), rng)[0]
        else:
            line = make_draws.one_fill(*rng.choice(make_draws.KINDS), rng)[0]
        case, expected = line.split(" : ")
        yield case, expected


live.run("draws", pairs)
