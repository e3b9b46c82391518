"""Runs the programs of a benchmark and reads what they print."""
import json
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Missing(Exception):
    """A program is not there or did not work; the text says which and why."""


def output_of(command, timeout=900):
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=timeout)
    except FileNotFoundError:
        raise Missing(f"{words[0]} is not there") from None
    except subprocess.TimeoutExpired:
        raise Missing(f"{words[0]} took more than {timeout} s") from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no words"])[-1]
        raise Missing(f"{words[0]} ended with {done.returncode}: {last}")
    return done.stdout


def json_of(command, timeout=900):
    """The last line that a program prints, which is JSON."""
    return json.loads(output_of(command, timeout).strip().splitlines()[-1])


class GoogleBench:
    """The results of one program built on Google Benchmark, by name; each is run once."""

    def __init__(self, binary, pattern, seconds=0.3, repetitions=5):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            output_of([binary, f"--benchmark_filter={pattern}", f"--benchmark_min_time={seconds}",
                       f"--benchmark_repetitions={repetitions}",
                       "--benchmark_enable_random_interleaving=true",
                       f"--benchmark_out={file.name}", "--benchmark_out_format=json"])
            rows = json.loads(pathlib.Path(file.name).read_text(encoding="utf-8"))["benchmarks"]
        self.runs = {}
        for row in rows:
            if row["run_type"] == "iteration":
                self.runs.setdefault(row["name"].split("/repeats")[0], []).append(row)

    def best(self, name, field, larger_is_better):
        """Of all repetitions: what else ran on the machine only makes a run slower."""
        rows = [row for key, row in self.runs.items() if key == name or key.startswith(name + "/")]
        if not rows:
            raise Missing(f"no benchmark {name}")
        values = [run[field] for run in rows[0]]
        return max(values) if larger_is_better else min(values)

    def seconds(self, name):
        """Processor time of one iteration."""
        unit = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
        rows = [run for key, runs in self.runs.items()
                if key == name or key.startswith(name + "/") for run in runs]
        if not rows:
            raise Missing(f"no benchmark {name}")
        return min(run["cpu_time"] * unit[run["time_unit"]] for run in rows)


def smpi(binary_folder, ranks, rounds):
    """Messages a second of the ring of peers/smpi_ring.c on a cluster of one switch."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "smpi_ring"
        platform = pathlib.Path(folder) / "platform.xml"
        hosts = pathlib.Path(folder) / "hosts"
        output_of(["smpicc", "-O2", binary_folder / "bench/peers/smpi_ring.c", "-o", program])
        platform.write_text(
            '<?xml version="1.0"?>\n'
            '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
            '<platform version="4.1">\n'
            f'  <cluster id="c" prefix="n-" suffix="" radical="0-{ranks - 1}" speed="1Gf"\n'
            '           bw="50GBps" lat="2us"/>\n'
            "</platform>\n", encoding="utf-8")
        hosts.write_text("".join(f"n-{i}\n" for i in range(ranks)), encoding="utf-8")
        return json_of(["smpirun", "-np", ranks, "-platform", platform, "-hostfile", hosts,
                        "--log=root.threshold:error", program, rounds])
