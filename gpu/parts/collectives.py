"""What NCCL's collectives give: the digest of each on every rank, and the order of adding that explains it."""
import json

from parts.recorder import ONE_RING


def mode(algorithm, protocol, n_channels):
    return {**ONE_RING, "NCCL_ALGO": {"ring": "Ring", "tree": "ring;allreduce:tree"}[algorithm],
            "NCCL_PROTO": protocol, "NCCL_MIN_NCHANNELS": str(n_channels), "NCCL_MAX_NCHANNELS": str(n_channels)}


def title_of(algorithm, protocol, n_channels):
    return f"{algorithm}, {protocol}, {n_channels} channel{'s' if n_channels > 1 else ''}"


PLAIN = ("ring", "Simple", 1)
# (ranks, mode, launch): three launches of one kind must repeat each other.
LAUNCHES = [(3, PLAIN, 0), (2, PLAIN, 0), (1, PLAIN, 0), (3, PLAIN, 1), (3, PLAIN, 2), (4, PLAIN, 0)]
# Long buffers: where chunks, channels and protocols cut them.
SIZES = [(3, (algorithm, protocol, n)) for algorithm, protocol, n in
         [("ring", "Simple", 1), ("tree", "Simple", 1), ("ring", "LL", 1), ("tree", "LL", 1), ("ring", "Simple", 2),
          ("ring", "Simple", 4), ("ring", "Simple", 8), ("tree", "Simple", 4), ("ring", "LL", 4)]]
SIZES += [(4, ("ring", "Simple", 1)), (4, ("tree", "Simple", 2))]


def launch(recorder, which, n_ranks, chosen, title, limit):
    if recorder.passes_over(title):
        return None
    file = recorder.scratch / f"{which}-{title.replace(' ', '-')}.json"
    code, said, logs = recorder.ranks(n_ranks, [which, title, file], limit, mode(*chosen))
    done = json.loads(file.read_text()) if code == 0 and file.exists() else None
    verdicts = {}
    for one in done["cases"] if done else []:
        verdicts[one["verdict"]] = verdicts.get(one["verdict"], 0) + 1
    if done:
        recorder.keep_launch(done)
    recorder.note(title, code, verdicts=verdicts, nccl_log=rings_of(recorder, logs), nccl=version_of(logs),
                  said=said.splitlines()[-6:] + warnings_of(logs) if code else [])
    return done


def rings_of(recorder, logs):
    code, said = recorder.command([recorder.build / "bin" / "lockstep", "nccl-log", *logs], 20) if logs else (1, "")
    return said.splitlines() if code == 0 else []


def version_of(logs):
    for log in logs:
        for line in log.read_text(errors="replace").splitlines():
            if "NCCL version" in line:
                return line.partition("NCCL version")[2].strip()
    return ""


def warnings_of(logs):
    """What NCCL complained about, of every rank."""
    return [f"{log.name}: {line}" for log in logs for line in log.read_text(errors="replace").splitlines()
            if "WARN" in line][-20:]


def refused_without_host_id(recorder):
    """Our own negative control: NCCL must refuse two ranks of one GPU on one host."""
    title = "one host, one GPU, two ranks"
    if recorder.backend != "nccl" or recorder.passes_over(title):
        return
    code, said, logs = recorder.ranks(2, ["cases", "refused", recorder.scratch / "none"], 60,
                                      {"NCCL_HOSTID": "same"})
    refused = "Duplicate GPU detected" in said + "".join(log.read_text(errors="replace") for log in logs)
    recorder.note(title, 0 if refused and code != 0 else 1, said=said.splitlines()[-6:])


def collectives(recorder):
    refused_without_host_id(recorder)
    kept = []
    for n_ranks, chosen, number in LAUNCHES[:3] if recorder.options.short else LAUNCHES:
        title = f"{n_ranks} ranks, {title_of(*chosen)}, launch {number}"
        done = launch(recorder, "cases", n_ranks, chosen, title, 120)
        if done and n_ranks == 3:
            kept.append(done["cases"])
    if len(kept) > 1:
        recorder.note("launches repeat", 0 if all(one == kept[0] for one in kept) else 1, n=len(kept))


def sizes(recorder):
    for n_ranks, chosen in SIZES[:2] if recorder.options.short else SIZES:
        launch(recorder, "sizes", n_ranks, chosen, f"{n_ranks} ranks, {title_of(*chosen)}, sizes", 90)
