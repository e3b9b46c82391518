"""What is measured, against which peer, and what it should reach.

Each measure returns rows; a row says what we reached, what the peer reached in the same run, their
ratio, the goal and whether it is met. A peer that is not there leaves its half of a row empty, with
the reason.
"""
import mmap
import re
import time

from runners import GoogleBench, Missing, json_of, output_of, smpi


ZEROS = bytes(1 << 20)


def row(name, ours, unit, goal, met, peer=None, theirs=None, ratio=None, note=""):
    return {"name": name, "ours": ours, "unit": unit, "goal": goal, "met": met, "peer": peer,
            "theirs": theirs, "ratio": ratio, "note": note}


def against(peer, run):
    """What a peer's program printed, or the reason why there is nothing."""
    try:
        return run(), ""
    except Missing as why:
        return None, f"{peer}: {why}"


def training(c):
    """Steps, starts and whole jobs of the tiny MLP, and those of PyTorch's DDP."""
    ours = GoogleBench(c.bin / "lockstep_bench",
                       "^(step_bare/32|step_with_laws/32|small_job|small_job_bare|start_and_stop/32)$")
    steps, starts = 32 * 200, 32
    bare = steps / ours.seconds("step_bare/32")
    checked = steps / ours.seconds("step_with_laws/32")
    start = ours.seconds("start_and_stop/32")
    jobs = 1.0 / ours.seconds("small_job")
    peer, why = against("PyTorch", lambda: json_of(
        [c.python, c.root / "bench/peers/torch_ddp_step.py", "--ranks", 32]))
    small, _ = against("PyTorch", lambda: json_of(
        [c.python, c.root / "bench/peers/torch_ddp_step.py", "--ranks", 4, "--steps", 3,
         "--port", 29741]))
    theirs = 32 / peer["step_seconds"] if peer else None
    ratio = bare / theirs if peer else None
    name = f"PyTorch {peer['torch']} DDP, gloo" if peer else "PyTorch DDP, gloo"
    checked_ratio = checked / theirs if peer else None
    jobs_theirs = 1.0 / small["job_seconds"] if small else None
    return [
        row("DDP steps, MLP 16-16-1, 32 ranks, nothing recorded", bare, "rank-steps/s",
            ">= 4,900 x", None if ratio is None else ratio >= 4900, name, theirs, ratio, why),
        row("the same, events recorded and all laws on", checked, "rank-steps/s", "<= 1.55 x the time",
            bare / checked <= 1.55, name, theirs, checked_ratio,
            f"{bare / checked:.2f} x the time of a step that records nothing"),
        row(f"start of {starts} ranks", start, "s", "<= 0.2 ms", start <= 0.2e-3, name,
            peer["start_seconds"] if peer else None,
            peer["start_seconds"] / start if peer else None, why),
        row("whole jobs of 4 ranks and 3 steps, all laws on", jobs, "jobs/s", ">= 20,000/s",
            jobs >= 20000, name, jobs_theirs, jobs / jobs_theirs if small else None, why),
        row("the same, nothing recorded", 1.0 / ours.seconds("small_job_bare"), "jobs/s", "", None),
    ]


def width_row(ours, width, goal, peer, why):
    """A step of one rank beside that of a build of PyTorch, without a wrapper in either."""
    name = f"wide_alone/1/{width}"
    step = ours.seconds(name) / ours.best(name, "steps", True)
    theirs = peer["step_seconds"][str(width)] if peer else None
    met = None if peer is None or goal is None else theirs >= goal * step
    who = f"PyTorch {peer['torch']}, BLAS {peer['blas']}, one thread" if peer else "PyTorch, one thread"
    return row(f"step of the MLP {width}-{width}-1, batch 8, one rank", step, "s",
               f">= {goal} x" if goal else "", met, who, theirs, theirs / step if peer else None, why)


def wide(c):
    """The MLP N-N-1: a step, and what checking a wide one costs."""
    ours = GoogleBench(c.bin / "lockstep_bench", "^wide_", repetitions=9)
    widths = {16: 40, 256: 2, 1024: 1.5}
    script = c.root / "bench/peers/torch_wide_step.py"
    peer, why = against("PyTorch", lambda: json_of([c.python, script, *widths]))
    rows = [width_row(ours, width, goal, peer, why) for width, goal in widths.items()]
    # A build with the reference BLAS stands beside the other one, and has no goal.
    reference, why = against("Debian's PyTorch", lambda: json_of([c.reference_python, script, 1024]))
    rows.append(width_row(ours, 1024, None, reference, why))
    for ranks in (1, 2):
        base = ours.seconds(f"wide_bare/{ranks}/1024")
        for name, what, goal in (("wide_with_laws", "full digests", 1.6),
                                 ("wide_covering_a_sixteenth", "rotating 1/16 coverage", 1.05)):
            ratio = ours.seconds(f"{name}/{ranks}/1024") / base
            rows.append(row(f"all laws on, MLP 1024-1024-1, {ranks} rank(s), {what}", ratio,
                            "x the time of a bare step", f"<= {goal} x", ratio <= goal))
    return rows


def collectives(c):
    ours = GoogleBench(c.bin / "lockstep_bench", "^all_reduce_256/(8|1024|4096)$")
    big = GoogleBench(c.bin / "world_bench", "^all_reduce_16_mib$", repetitions=3)
    triad, why = against("triad", lambda: json_of([c.bin / "peer_triad"]))
    sums, no_sums = against("its sums alone", lambda: json_of([c.bin / "peer_sums", 1024, 4096]))
    gloo, no_gloo = against("Gloo", lambda: json_of([c.bin / "peer_gloo", 8]))
    seconds = {n: ours.seconds(f"all_reduce_256/{n}") / 20 for n in (8, 1024, 4096)}
    rate = big.best("all_reduce_16_mib", "bytes/s", True)
    of_triad = rate / triad["triad"] if triad else None

    def many(name, n, goal_s, goal):
        alone = sums[str(n)] if sums else None
        return row(name, seconds[n], "s", goal, seconds[n] <= goal_s, "its sums and copies alone, one loop", alone,
                   alone / seconds[n] if sums else None, no_sums)

    return [
        row("all-reduce of 256 floats, 8 ranks", seconds[8], "s", "", None,
            "Gloo, 8 threads, TCP", gloo["seconds"] if gloo else None,
            gloo["seconds"] / seconds[8] if gloo else None, no_gloo),
        many("the same, 1,024 ranks", 1024, 0.1e-3, "<= 0.1 ms"),
        many("the same, 4,096 ranks", 4096, 0.6e-3, "<= 0.6 ms"),
        row("all-reduce of 16 MiB, 8 ranks", rate, "bytes/s", ">= 120 % of triad",
            None if triad is None else of_triad >= 1.2, "triad, one thread",
            triad["triad"] if triad else None, of_triad, why),
    ]


def scheduling(c):
    ours = GoogleBench(c.bin / "world_bench", "^points", repetitions=3)
    fibers, why = against("Boost.Fiber", lambda: json_of([c.bin / "peer_fibers"]))
    rapid, no_rapid = against("RapidCheck", lambda: json_of([c.bin / "peer_rapidcheck"]))
    rows = []
    for name, least, who, key in (
            ("fifo", 15e6, "Boost.Fiber alone, first in, first out", "yields_per_s"),
            ("random", 12e6, "Boost.Fiber alone, at random", "random_yields_per_s")):
        theirs = fibers[key] if fibers else None
        rate = ours.best(f"points/{name}/100", "points/s", True)
        rows.append(row(f"scheduling points, 10,000 ranks, {name}", rate, "points/s",
                        f">= {least / 1e6:.0f} M/s", rate >= least,
                        who, theirs, rate / theirs if fibers else None, why))
    text = output_of([c.bin / "explore_bench", 50000])
    found = re.search(r"^random +\d+ schedules +\d+ a second, +(\d+) a second of processor", text, re.M)
    rate = float(found.group(1))
    rows.append(row("schedules explored, two-communicator cycle, 4 ranks", rate, "schedules/s",
                    ">= 50,000/s", rate >= 50000, "RapidCheck alone, empty properties",
                    rapid["cases_per_s"] if rapid else None,
                    rate / rapid["cases_per_s"] if rapid else None, no_rapid))
    return rows


def network(c):
    ours = GoogleBench(c.bin / "net_bench", "all_reduce/ring/256/[01]$", repetitions=3)
    timed = ours.best("all_reduce/ring/256/1", "hops/s", True)
    peer, why = against("SMPI", lambda: smpi(c.root, 256, 2))
    theirs = peer["messages"] / peer["wall_seconds"] if peer else None
    return [row("ring all-reduce as messages, 256 ranks, 16 floats per chunk", timed, "hops/s",
                ">= 20 x and 10 M/s",
                None if peer is None else timed >= 20 * theirs and timed >= 1e7, "SimGrid SMPI",
                theirs, timed / theirs if peer else None, why)]


def seconds_of_a_first_touch():
    """Of a page: microseconds where a virtual machine's host has backed the memory, ten times that where not."""
    n_bytes = 1 << 30
    with mmap.mmap(-1, n_bytes) as memory:
        begin = time.perf_counter()
        for at in range(0, n_bytes, 1 << 20):
            memory[at:at + (1 << 20)] = ZEROS
        return (time.perf_counter() - begin) / (n_bytes / mmap.PAGESIZE)


def cold_run(c, what, n, most_s, most_gib):
    """The best of three processes: after the first, the host has backed the memory of a virtual machine."""
    touch, runs = seconds_of_a_first_touch(), []
    for _ in range(3):
        text = output_of([c.bin / "scale_bench", what, n])
        found = re.search(r"cold ([\d.]+) s, warm ([\d.]+) s, ([\d.]+) GiB", text)
        runs.append(tuple(map(float, found.groups())))
    cold, warm, gib = min(runs)
    job = "an all-reduce of one float" if what == "reduce" else "the MLP 16-16-1, 10 steps"
    each = ", ".join(f"{run[0]:.1f}" for run in runs)
    return row(f"{n:,} ranks, {job}, cold", cold, "s", f"<= {most_s:.0f} s, {most_gib:.0f} GiB",
               cold <= most_s and gib <= most_gib,
               note=f"{gib:.2f} GiB; warm {warm:.1f} s; three processes in succession {each} s, before them a first "
                    f"touch took {touch * 1e6:.1f} us per page, after them {seconds_of_a_first_touch() * 1e6:.1f}")


def scale(c):
    rows = []
    ours = GoogleBench(c.bin / "world_bench", "^(idle|reducing)_ranks", repetitions=1)
    for name, what, most in (("idle_ranks", "waits at a point", 5e3),
                             ("reducing_ranks", "waits in an all-reduce", 8e3)):
        size = ours.best(name, "bytes/rank", False)
        rows.append(row(f"memory of a rank that {what}", size, "bytes", f"<= {most / 1e3:.0f} KB",
                        size <= most))
    many = GoogleBench(c.bin / "lockstep_bench", "^step_of_many", repetitions=3)
    step = (many.seconds("step_of_many/32768/15") - many.seconds("step_of_many/32768/5")) / 327680
    rows.append(row("rank-step, 32,768 ranks", step, "s", "<= 2.5 us", step <= 2.5e-6))
    for what, n, most_s, most_gib in (("reduce", 1_000_000, 5.0, 5.0), ("train", 100_000, 5.0, 3.0)):
        rows.append(cold_run(c, what, n, most_s, most_gib))
    text = output_of([c.bin / "law_bench"])
    found = re.search(r"([\d.]+) events/s, ([\d.]+) MiB grown", text)
    rate = float(found.group(1))
    rows.append(row("all laws over a trace of 1,024 ranks and 1,000 steps", rate, "events/s",
                    ">= 1 M/s", rate >= 1e6, note=f"memory grew by {found.group(2)} MiB"))
    return rows


MEASURES = {"training": training, "wide": wide, "collectives": collectives,
            "scheduling": scheduling, "network": network, "scale": scale}
