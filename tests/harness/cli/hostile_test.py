#!/usr/bin/env python3
"""Small files with extreme contents: one sentence with exit code 2, little memory, at once.

usage: hostile_test.py LOCKSTEP [TESTS]
"""

import json
import os
import re
import resource
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LOCKSTEP = str(Path(sys.argv[1]).resolve())
LESSON = str(ROOT / "scenarios" / "lessons" / "weights_2_and_200.toml")
MOST_BYTES = 1 << 30
MOST_SECONDS = 10  # Of the processor: on a busy machine they last longer.
DEADLINE_SECONDS = 120
# AddressSanitizer reserves 16 TiB of addresses when it starts: under a limit it does not even begin.
LIMITS_ADDRESSES = "LOCKSTEP_SANITIZED" not in os.environ

HEADER = '{"lockstep_trace":1,"run":"r","attempt":0,"rank":0,"ranks":%s,"backend":"sim"}\n'
POSTED = ('{"rank":0,"i":%d,"t":0,"at":[0,0,0,0,0,0],"kind":"collective","phase":"posted","group":0,'
          '"seq":%s,"op":"all_reduce","dtype":"f32","count":1}\n')
JOB = """format = 1
title = "hostile"
world = { ranks = 2 }
model = { kind = "linear", in = 2, out = 1 }
data = { kind = "synthetic", task = "regression", size = 8, features = 2, outputs = 1 }
loader = { batch = 2 }
loss = { kind = "mse" }
optimizer = { kind = "sgd", lr = 0.1 }
loop = { steps = 2 }
"""


def little():
    if LIMITS_ADDRESSES:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))


def lockstep(*words, cwd=None, limit=True, prefix=(), **more):
    return subprocess.run([*prefix, LOCKSTEP, *words], capture_output=True, text=True, cwd=cwd, check=False,
                          timeout=DEADLINE_SECONDS, preexec_fn=little if limit else None, **more)


def machine_of(folder, kib):
    """In front of a command: it runs where the kernel says that so much memory is available."""
    feigned = Path(folder, f"meminfo-{kib}")
    feigned.write_text(f"MemTotal: {1 << 30} kB\nMemAvailable: {kib} kB\nSwapFree: 0 kB\n", encoding="ascii")
    return ["unshare", "--map-root-user", "--mount", "sh", "-c",
            f'mount --bind "{feigned}" /proc/meminfo && exec "$@"', "sh"]


def feigns():
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run([*machine_of(folder, 7), "cat", "/proc/meminfo"], capture_output=True, text=True,
                                  check=False)
        except OSError:
            return False
        return "MemAvailable: 7 kB" in done.stdout


FEIGNS = feigns()


def dump_entry(**changes):
    return {"frames": [], "record_id": 0, "pg_id": 0, "process_group": ["0", "default_pg"],
            "collective_seq_id": 1, "p2p_seq_id": 0, "op_id": 1, "profiling_name": "nccl:all_reduce",
            "time_created_ns": 1, "input_sizes": [[4]], "input_dtypes": ["Float"],
            "output_sizes": [[4]], "output_dtypes": ["Float"], "state": "scheduled",
            "time_discovered_started_ns": None, "time_discovered_completed_ns": None,
            "retired": False, "timeout_ms": 600000, "is_p2p": False, **changes}


def dump(ranks="[0, 1]", **changes):
    return json.dumps({"version": "2.7", "pg_config": {"0": {"name": "0", "desc": "default_pg",
                                                             "ranks": ranks}},
                       "pg_status": {}, "entries": [dump_entry(**changes)]})


class HostileTest(unittest.TestCase):
    """Each test writes its inputs into a folder of its own."""

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="lockstep-hostile-")
        self.addCleanup(self.temporary.cleanup)
        self.folder = Path(self.temporary.name)

    def write(self, name, contents):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(contents, str):
            contents = contents.encode()
        path.write_bytes(contents)
        return str(path)

    def refuses(self, done, words=""):
        """One sentence, code 2."""
        self.assertEqual(done.returncode, 2, done.stdout[-300:] + done.stderr[-600:])
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr[-600:])
        self.assertIn(words, done.stderr)

    def check_trace(self, text):
        self.write("trace/a000.rank-00000.jsonl", text)
        return lockstep("check", str(self.folder / "trace"))

    def test_sequence_numbers_out_of_range_are_refused(self):
        # The only call of the world never completed, whatever its number.
        done = self.check_trace(HEADER % 1 + POSTED % (0, 1_000_000_000))
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertIn("blocked forever in all_reduce", done.stdout)
        for seq in (2 ** 63 - 1, -1):
            with self.subTest(seq=seq):
                self.refuses(self.check_trace(HEADER % 1 + POSTED % (0, seq)),
                             "a000.rank-00000.jsonl:2:89: 'seq' numbers the calls of a group from 0")

    def test_negative_places_and_far_times_are_refused(self):
        bucket = ('{"rank":0,"i":0,"t":0,"at":[0,0,0,0,0,0],"kind":"bucket","lengths":%s,"indices":%s}\n')
        self.refuses(self.check_trace(HEADER % 1 + bucket % ("[-1,2]", "[0]")), "'lengths' must be 0")
        self.refuses(self.check_trace(HEADER % 1 + bucket % ("[1]", "[-5]")), "'indices' must be 0")
        far = (POSTED % (0, 0)).replace('"t":0', f'"t":{-2 ** 63}')
        self.refuses(self.check_trace(HEADER % 1 + far), "'t' is a time within")

    def test_worlds_that_are_too_large_are_refused(self):
        for ranks in (2 ** 24, 1_000_001):
            with self.subTest(ranks=ranks):
                self.refuses(self.check_trace(HEADER % ranks + POSTED % (0, 0)), "'ranks' must be")

    def test_numbers_of_a_dump_out_of_range_are_refused(self):
        for text, words in (
                (dump(ranks="[0, 100000000]"), "more ranks than a world can have"),
                (dump(ranks="[2147483647]"), "more ranks than a world can have"),
                (dump(ranks="[0, 1000000]"), "1 of them can be of a world of 100000 ranks"),
                (dump().replace('"time_created_ns": 1', '"time_created_ns": 1e999'), "neither valid JSON"),
                (dump(time_created_ns=-1), "'time_created_ns' must be 0 or more"),
                (dump(input_sizes=[[2 ** 62, 2 ** 62]]), "a size must be a number"),
                (dump(input_sizes=[[2 ** 62], [2 ** 62]]), "sizes must be numbers from 0 that fit")):
            with self.subTest(words=words):
                self.refuses(lockstep("check", self.write("rank_0.json", text)), words)

    def pickle(self, body):
        path = self.write("rank_0", b"\x80\x02" + body + b".")
        return lockstep("check", path)

    def test_pickles_that_grow_are_refused(self):
        nested = b"".join(b"]r" + struct.pack("<I", i) for i in range(60_000)) + b"a" * 59_999
        text = b"X" + struct.pack("<I", 100_000) + b"x" * 100_000 + b"q\0"
        recalls = b"(" + text + b"h\0" * 10_000 + b"t"
        appends = b"]q\0" + b"K\1a" * 2_000_000
        dicts = b"}q\0" + b"X\1\0\0\0k" * 1 + b"}" * 1 + b"s"
        for name, body in (("nested", nested), ("recalls", recalls), ("appends", appends),
                           ("dicts", dicts)):
            with self.subTest(name=name):
                self.refuses(self.pickle(body))

    def test_nccl_logs_with_endless_channels_are_refused(self):
        top = "host:1:1 [0] NCCL INFO "
        for line in ("Channel {0..9223372036854775807} : 0 1", "Channel 00/02 :",
                     "channel{Lo..Hi}={0..9223372036854775807}"):
            with self.subTest(line=line):
                self.refuses(lockstep("nccl-log", self.write("nccl.log", top + line + "\n")))

    def set(self, text, *settings):
        path = self.write("scenario.toml", text)
        return lockstep("run", path, *(word for setting in settings for word in ("--set", setting)),
                        limit=False)

    def test_numbers_of_a_job_out_of_range_are_refused(self):
        for setting, words in (
                ('model={kind="mlp",widths=[1,4611686018427387904,1]}', "holds 4611686018427387904"),
                ('model={kind="mlp",widths=[2,100000000000,1]}', "a layer of more than 2^31 weights"),
                ('model={kind="gpt",vocab=1000000000,width=64}', "a layer of more than 2^31 weights"),
                ("world.ranks=100000000", "'world.ranks' is 100000000; it must be between 1 and 1000000"),
                ("loader.workers=100000000", "'loader.workers' is 100000000; it must be between 0 and"),
                ("loader.batch=9223372036854775807", "'loader.batch' is 9223372036854775807; it must be"),
                ("loop.steps=1000000000", "'loop.steps' is 1000000000: more than 100000000 batches"),
                ("loop={epochs=1000000000}", "'loop.epochs' is 1000000000: more than 100000000 batches"),
                ("data.size=1000000000000", ""),
                ("data.features=1000000000000", ""),
                ('loop.snapshot={every_steps=1,path=""}', "'loop.snapshot.path' names no folder"),
                ('bug=[{kind="flip-bit",tensor="weight",bit=100}]', "bit 100 is out of range"),
                ('bug=[{kind="flip-bit",tensor="weight",element=-5}]', "must be at least 0"),
                ('loader={sampler="batches_by_rank",batches_by_rank=[[9223372036854775807],[1]]}', "holds 9"),
                ('scheduler={kind="step",times=9223372036854775807}', "'scheduler.times' is 9223372036854"),
                ('fault=[{kind="clock-skew",ranks=[0],skew_ns=9223372036854775807}]', "'fault.skew_ns' is 92"),
                ('tensor.x={shape=[4]}', "'tensor' belongs to a 'program'")):
            with self.subTest(setting=setting):
                self.refuses(self.set(JOB, setting), words)

    def test_numbers_of_a_program_out_of_range_are_refused(self):
        def program(body, shape="[4]"):
            return (f'format = 1\ntitle = "hostile"\nworld = {{ ranks = 2 }}\ntensor.x = {{ shape = {shape} }}\n'
                    f'program = [{{ ranks = "all", body = [{body}] }}]\n')

        barrier = '{ op = "barrier" }'
        for text, words in (
                (program(barrier, "[1099511627776]"), "a tensor has at most 2^31 elements"),
                (program(barrier, "[4294967296, 4294967296]"), "a tensor has at most 2^31 elements"),
                (program('{ op = "repeat", times = 9223372036854775807, body = [] }'), "'op.times' is 92"),
                (program('{ op = "repeat", times = 1000000, body = [{ op = "repeat", times = 1000000, '
                         'body = [] }] }'), "this body is repeated more than 1000000000 times")):
            with self.subTest(words=words):
                self.refuses(self.set(text), words)
        self.assertEqual(self.set(program(barrier)).returncode, 0)

    @unittest.skipUnless(LIMITS_ADDRESSES, "NOT RUN under AddressSanitizer, which cannot start under a limit")
    def test_memory_that_is_not_there_is_a_sentence(self):
        path = self.write("scenario.toml", JOB.replace("size = 8", "size = 2000000"))
        for setting in ("world.ranks=1000000", 'model={kind="mlp",widths=[2,500000000,1]}'):
            with self.subTest(setting=setting):
                done = lockstep("run", path, "--set", setting)
                text = done.stdout + done.stderr
                self.assertEqual(done.returncode, 3, text[-500:])
                self.assertIn("out of memory", text)
                self.assertNotIn("bad_alloc", text)

    @unittest.skipUnless(FEIGNS, "NOT RUN: this system refuses to change what it says of its memory")
    def test_a_run_asks_the_machine_for_memory_before_it_takes_it(self):
        """Of all that it holds in fact, a machine that says it has little gets a sentence."""
        job = self.write("scenario.toml", JOB)
        sparse = self.folder / "trace.jsonl"
        sparse.touch()
        os.truncate(sparse, 100 << 20)
        wide = 'model={kind="mlp",widths=[2,10000000,1]}'
        for kib, code in ((64 << 10, 3), (64 << 20, None)):
            for words in (["run", job, "--set", "loop.steps=20000"], ["run", job, "--set", wide],
                          ["check", str(sparse)]):
                with self.subTest(kib=kib, words=words):
                    done = lockstep(*words, prefix=machine_of(self.folder, kib), limit=False)
                    said = "out of memory" in done.stdout + done.stderr
                    self.assertEqual(said, code == 3, done.stderr[-500:])
                    if code is not None:
                        self.assertEqual(done.returncode, code)

    def test_a_device_without_an_end_is_refused(self):
        digests = '[replay]\ntrace_digest = "0123456789abcdef"\nresult_digest = "0123456789abcdef"\n'
        for kind in ("csv", "text"):
            with self.subTest(kind=kind):
                data = f'data = {{ kind = "{kind}", path = "/dev/zero" }}\n'
                text = re.sub("data = .*\n", data, JOB) + digests
                self.refuses(lockstep("replay", self.write("repro.toml", text)),
                             "/dev/zero: cannot read this file: it is not a regular file and does not end")
        self.refuses(lockstep("check", "/dev/zero"))

    def test_a_replay_of_an_edited_file_is_bad_input(self):
        repro = self.folder / "repro.toml"
        done = lockstep("run", LESSON, "--variant", "after_wrapping", "--repro", str(repro), limit=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(lockstep("replay", str(repro), "--quiet", limit=False).returncode, 1)
        text = repro.read_text(encoding="utf-8")
        digest = re.search(r'trace_digest = "(\w{16})"', text).group(1)
        repro.write_text(text.replace(digest, "0123456789abcdef"), encoding="utf-8")
        self.refuses(lockstep("replay", str(repro), "--quiet", limit=False), "not reproduced")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
