"""Fresh random cases, computed by PyTorch and by this library, compared bit for bit.

A script of an area yields pairs (case, expected): one line that the area's probe program reads, and
the line it must answer, or an object whose accepts(line) decides and whose text is shown. run() draws the
cases from a new seed each time and prints it when something differs; `--seed` repeats that run.
"""

import argparse
import random
import struct
import subprocess
import sys

NOT_RUN = 77  # What the test runner counts as "not run", never as passed.

try:
    import torch
except ImportError:
    print("not run: no torch for", sys.executable)
    sys.exit(NOT_RUN)


def bits(tensor):
    """The elements in row-major order as hexadecimal words of the element's width."""
    flat = tensor.detach().contiguous().flatten()
    letter = {torch.float32: "<f", torch.float64: "<d", torch.int64: "<q", torch.int32: "<i",
              torch.uint8: "<B", torch.bool: "<?"}
    if flat.dtype in (torch.float16, torch.bfloat16):
        return " ".join(f"{v & 0xFFFF:04x}" for v in flat.view(torch.int16).tolist())
    code = letter[flat.dtype]
    return " ".join(struct.pack(code, v)[::-1].hex() for v in flat.tolist())


def fits(expected, got):
    return expected.accepts(got) if hasattr(expected, "accepts") else expected == got


def run(area, pairs, n_cases=300):
    """`pairs(rng)` yields (case, expected) without end. Never returns."""
    parser = argparse.ArgumentParser(description=f"{area} against PyTorch {torch.__version__}")
    parser.add_argument("probe", help="the program that answers the cases")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--cases", type=int, default=n_cases)
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    stream = pairs(random.Random(seed))
    drawn = [next(stream) for _ in range(options.cases)]
    answer = subprocess.run([options.probe], input="\n".join(c for c, _ in drawn) + "\n",
                            stdout=subprocess.PIPE, text=True, check=False)
    answers = answer.stdout.splitlines()
    wrong = [(case, expected, got) for (case, expected), got in
             zip(drawn, answers + ["(no answer)"] * len(drawn)) if not fits(expected, got)]
    for case, expected, got in wrong[:3]:
        print(f"case     {case[:400]}\nexpected {str(expected)[:400]}\nanswered {got[:400]}\n")
    ok = not wrong and answer.returncode == 0
    print(f"{area}: {options.cases - len(wrong)} of {options.cases} cases equal PyTorch "
          f"{torch.__version__}; --seed {seed}" + ("" if ok else f" (exit {answer.returncode})"))
    sys.exit(0 if ok else 1)
