#!/usr/bin/env python3
"""A network that flips one bit of what rank 1 receives: noticed where the comparison is asked for.

Every way to ask for it is tried, and each without it, where no rank notices.
"""
import subprocess
import sys

from real_processes import CLEAN

ALTERED = "what arrived is not what was sent in broadcast"
EXACT = ("rank 1 got 12345.001 (0x4640e401) as element 0 from rank 0, which sent "
         "12345 (0x4640e400)")


def output_of(command, network, number, **variables):
    """Everything the command prints; `network` is loaded into its ranks."""
    environment = {**CLEAN, **variables, "ALTERED_NUMBER": number}
    if network:
        environment["LD_PRELOAD"] = network
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False,
                          env=environment)
    return done.returncode, done.stdout + done.stderr


def main():
    """Asks in every way."""
    lockstep, program, network, scenario = sys.argv[1:5]
    launch = [lockstep, "launch", "--standalone", "--nproc-per-node", "2", "--backend", "gloo"]
    run = [lockstep, "run", scenario, "--backend", "gloo"]
    on = {"LOCKSTEP_CHECK_ARRIVALS": "1"}
    for name, command, number, variables, noticed in (
            ("launch", [*launch, "--", program], "12345", {}, False),
            ("launch --check-arrivals", [*launch, "--check-arrivals", "--", program], "12345", {}, True),
            ("the environment", [*launch, "--", program], "12345", on, True),
            ("the program", [*launch, "--", program, "check"], "12345", {}, True),
            ("run", run, "2", {}, False),
            ("run --check-arrivals", [*run, "--check-arrivals"], "2", {}, True),
            ("run and the environment", run, "2", on, True)):
        _, text = output_of(command, network, number, **variables)
        if (ALTERED in text) != noticed:
            sys.exit(f"{name}: {'not ' if noticed else ''}noticed\n{text}")
        if noticed and number == "12345" and EXACT not in text:
            sys.exit(f"{name}: not the right element\n{text}")
        code, text = output_of(command, "", number, **variables)
        if code != 0:
            sys.exit(f"{name}, over a healthy network: {code}\n{text}")
    code, text = output_of([lockstep, "run", scenario, "--check-arrivals"], "", "2")
    if code != 2 or "--check-arrivals is for real ranks" not in text:
        sys.exit(f"in the simulator: {code}\n{text}")
    print("noticed wherever it was asked for, and nowhere else")


if __name__ == "__main__":
    main()
