"""Runs generated jobs (tests/programs) with PyTorch's own DistributedDataParallel on gloo.

run_jobs(lines) returns an answer a job: {key: text} as tests/programs/run.h names them. One pool of
processes runs all jobs; each uses a group of as many ranks as it needs. The group records the calls.
"""

import contextlib
import itertools
import os
import pickle
import re
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import warnings

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import debugging_hooks, default_hooks
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from ports import reserved_ports  # noqa: E402

DTYPES = {"f32": torch.float32, "f64": torch.float64}
NAMES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.int64: "i64",
         torch.int32: "i32", torch.uint8: "u8"}
LETTERS = {torch.float32: ">f", torch.float64: ">d", torch.int64: ">q"}
HINT = (" You can set the environment variable TORCH_DISTRIBUTED_DEBUG to either INFO or DETAIL to "
        "print parameter names for further debugging.")
MASK = 2**64 - 1
PATIENCE_S = 30  # A job that hangs is a difference too.


def draw(seed, purpose, words):
    state = seed
    for letter in purpose:
        state = (state * 31 + ord(letter)) & MASK
    for word in words:
        state = (state * 1000003 + word + 1) & MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


def parse(line):
    job = {"branches": []}
    for word in line.split():
        key, value = word.split("=", 1)
        if key == "branch":
            use, dtype, layers, loss = value.split("/")
            job["branches"].append((use, DTYPES[dtype], layers.split(","), loss))
        else:
            job[key] = value
    for key in ("world", "seed", "rows", "in", "static", "find", "view", "buffers", "cap", "first",
                "divide", "throw"):
        job[key] = int(job[key])
    for key in ("ignored", "join"):
        job[key] = job[key].split(",") if job[key] else []
    return job


def is_used(use, rank, step):
    return {"all": True, "never": False, "rank0": rank == 0, "others": rank != 0,
            "odd": (rank + step) % 2 == 1, "even": step % 2 == 0, "first": step == 0,
            "later": step > 0}[use]


class Plain(torch.nn.Module):
    def __init__(self, dtype, rank):
        super().__init__()
        self.rank = rank
        self.register_buffer("seen", torch.full((1,), rank + 1.0, dtype=dtype))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.seen.copy_(torch.floor(self.seen / 2) + self.rank)
        self.count += 1
        return x + self.seen


class Hidden:
    """An output that DDP does not find."""

    def __init__(self, value):
        self.value = value


class Model(torch.nn.Module):
    def __init__(self, job, rank):
        super().__init__()
        self.job, self.rank = job, rank
        linears = []
        for k, (_, dtype, layers, _) in enumerate(job["branches"]):
            chain = torch.nn.Sequential()
            for layer in layers:
                made = self.layer(layer, dtype, linears)
                if made is not None:
                    chain.add_module(f"l{len(chain)}", made)
            self.add_module(f"b{k}", chain)
        with torch.no_grad():
            for index, p in enumerate(self.parameters()):
                words = [draw(job["seed"], "initial", (rank, index, i)) for i in range(p.numel())]
                p.copy_(torch.tensor([(w % 17 - 8) / 4 for w in words], dtype=p.dtype).view_as(p))
                if job["flaw"] == "frozen":
                    p.requires_grad_(False)
            for index, (name, b) in enumerate(self.named_buffers()):
                if name.endswith("running_var"):
                    words = [draw(job["seed"], "buffer", (rank, index, i)) for i in range(len(b))]
                    b.copy_(torch.tensor([0.25 if w % 2 == 0 else 4.0 for w in words]))

    def layer(self, text, dtype, linears):
        if text[0] == "W":
            self.w = torch.nn.Parameter(torch.zeros(int(text[1:]), dtype=dtype))
            return None
        if text[0] == "R":
            return torch.nn.ReLU()
        if text[0] == "S":
            n_rows, width = (int(size) for size in text[1:].split("x"))
            return torch.nn.Embedding(n_rows, width, sparse=True, dtype=dtype)
        if text[0] == "P":
            return Plain(dtype, self.rank)
        if text[0] == "N":
            return torch.nn.BatchNorm1d(int(text[1:]), eps=0.0, dtype=dtype).eval()
        sizes = text[1:].rstrip("bf") if "t" not in text else text[1:text.index("t")].rstrip("bf")
        n_in, n_out = (int(size) for size in sizes.split("x"))
        made = torch.nn.Linear(n_in, n_out, bias="b" in text, dtype=dtype)
        if "t" in text:
            made.weight = linears[int(text[text.index("t") + 1:])].weight
        if "f" in text:
            made.weight.requires_grad_(False)
        linears.append(made)
        return made

    def drawn(self, purpose, shape, dtype, words):
        n = 1
        for size in shape:
            n *= size
        values = [float(draw(self.job["seed"], purpose, (*words, i)) % 5 - 2) for i in range(n)]
        return torch.tensor(values, dtype=dtype).view(shape)

    def forward(self, step, micro):
        outputs = {}
        for k, (use, dtype, layers, loss) in enumerate(self.job["branches"]):
            if not is_used(use, self.rank, step):
                continue
            if layers[0][0] == "W":
                value = self.w * self.drawn("factor", self.w.shape, dtype, (self.rank, step, micro))
            elif layers[0][0] == "S":
                n_rows = int(layers[0][1:].split("x")[0])
                rows = [draw(self.job["seed"], "rows", (self.rank, step, micro, k, i)) % n_rows
                        for i in range(self.job["rows"])]
                value = getattr(self, f"b{k}")(torch.tensor(rows))
            else:
                shape = (self.job["rows"], self.job["in"])
                x = self.drawn("input", shape, dtype, (self.rank, step, micro, k))
                value = getattr(self, f"b{k}")(x)
            outputs[k] = Hidden(value) if loss == "hide" else value
        return outputs

    def loss(self, outputs, step, micro):
        branches = self.job["branches"]
        wide = any(dtype == torch.float64 for _, dtype, _, _ in branches)
        total = None
        for k, value in sorted(outputs.items()):
            _, dtype, _, loss = branches[k]
            if loss == "drop" or (loss == "flip" and step % 2):
                continue
            value = value.value if isinstance(value, Hidden) else value
            factors = self.drawn("loss", value.shape, dtype, (self.rank, step, micro, k))
            term = (value * factors).sum()
            if wide and dtype == torch.float32:
                term = term.double()
            total = term if total is None else total + term
        return total


def words(tensor):
    if tensor is None:
        return "none"
    if tensor.is_sparse:
        rows = "".join(f" {row}" for row in tensor._indices()[0].tolist())
        return "sparse" + rows + "|" + words(tensor._values())
    letter = LETTERS[tensor.dtype]
    # A zero's sign is the kernels' affair: adding zero makes it positive.
    return " ".join(struct.pack(letter, v + 0).hex() for v in tensor.detach().reshape(-1).tolist())


def plain(error):
    """Its text in version 2.7's words, without the place of a failed assertion in the source."""
    text = re.sub(r"INTERNAL ASSERT FAILED.*", "INTERNAL ASSERT FAILED", error, flags=re.DOTALL)
    # Newer versions name the parameter even if not asked to.
    text = re.sub(r"(at index \d+) with name \S+(.*)$", r"\1\2" + HINT, text, flags=re.DOTALL)
    return text.replace("\n", "\\n")


class RecordingGroup(dist.ProcessGroup):
    """gloo, with a list of what was called."""

    def __init__(self, inner, rank, size):
        super().__init__(rank, size)
        self.inner = inner
        self.calls = []

    def note(self, op, tensor):
        self.calls.append(f"{op} {NAMES[tensor.dtype]} {tensor.numel()}")

    def allreduce(self, tensors, options=None):
        options = dist.AllreduceOptions() if options is None else options
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        if tensors[0].is_sparse:
            self.note_gathers(tensors[0])
            return self.inner.allreduce(tensors, options)
        self.note("ARmax" if options.reduceOp == dist.ReduceOp.MAX else "AR", tensors[0])
        return self.inner.allreduce(tensors, options)

    def note_gathers(self, rows):
        """What gloo does inside: three gathers, counted as one list or, if uneven, all of them."""
        own = rows.coalesce()
        counts = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size())]
        n_own = torch.tensor([own._nnz()])
        self.inner.allgather([counts], [n_own]).wait()
        even = all(count == counts[0] for count in counts)
        n = int(counts[0] if even else sum(counts))
        width = own._values().shape[1]
        name = NAMES[own.dtype]
        self.calls += ["AG i64 9", f"AG i64 {n}", f"AG {name} {n * width}"]

    def broadcast(self, tensors, options):
        self.note(f"B{options.rootRank}", tensors[0])
        return self.inner.broadcast(tensors, options)

    def allgather(self, outputs, inputs, *options):
        self.note("AG", inputs[0])
        return self.inner.allgather(outputs, inputs, *options)

    def barrier(self, *options):
        return self.inner.barrier(*options)

    def getBackendName(self):
        return "recording"


class Run:
    def __init__(self, job, rank, group, answer):
        self.job, self.rank, self.group, self.answer = dict(job), rank, group, answer
        if job["flaw"] == "extra" and rank == 1:
            branch = ("all", torch.float32, [f"L{job['in']}x1"], "out")
            self.job["branches"] = job["branches"] + [branch]
        self.ddp = None
        self.has_reduced = False

    def note(self, kind, name, text):
        self.answer[" ".join(str(part) for part in (kind, self.rank, name) if part != "")] = text

    def all(self):
        job = self.job
        self.model = Model(job, self.rank)
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
            self.model, job["ignored"])
        default = dist._DEFAULT_FIRST_BUCKET_BYTES
        options = {"device_ids": [0, 1]} if job["flaw"] == "devices" else {}
        if job["cap"] >= 0:
            options["bucket_cap_mb"] = job["cap"] / 2**20
            dist._DEFAULT_FIRST_BUCKET_BYTES = job["first"]
        try:
            self.ddp = DistributedDataParallel(
                self.model, process_group=self.group, static_graph=bool(job["static"]),
                find_unused_parameters=bool(job["find"]), broadcast_buffers=bool(job["buffers"]),
                gradient_as_bucket_view=bool(job["view"]), **options)
            self.register_hook()
            if job["join"]:
                with self.ddp.join(divide_by_initial_world_size=bool(job["divide"]),
                                   throw_on_early_termination=bool(job["throw"])):
                    self.steps(int(job["join"][self.rank]))
                self.record("end")
            else:
                self.steps(len(job["steps"]))
        except (RuntimeError, ValueError) as e:
            self.note("x", "", plain(str(e)))
        finally:
            dist._DEFAULT_FIRST_BUCKET_BYTES = default

    def register_hook(self):
        hook = self.job["hook"]
        if hook == "allreduce":
            self.ddp.register_comm_hook(self.group, default_hooks.allreduce_hook)
        elif hook == "fp16":
            self.ddp.register_comm_hook(self.group, default_hooks.fp16_compress_hook)
        elif hook == "noop":
            self.ddp.register_comm_hook(self.group, debugging_hooks.noop_hook)
        elif hook == "builtin-allreduce":
            self.ddp._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
        elif hook == "builtin-fp16":
            self.ddp._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)

    def steps(self, n):
        for step in range(n):
            letter = self.job["steps"][step % len(self.job["steps"])]
            self.micro_step(letter, step)
            self.note("g", step, ",".join(words(p.grad) for p in self.model.parameters()))
            if letter in "sbtr":
                self.has_reduced = True
                self.update()
                self.zero()
            self.record(step)

    def forward(self, step, micro=0):
        return self.model.loss(self.ddp(step, micro), step, micro)

    def micro_step(self, letter, step):
        sync = contextlib.nullcontext
        if letter in "nNb":
            with self.ddp.no_sync() if letter != "b" else sync():
                loss = self.forward(step)
                if letter == "n":
                    loss.backward()
            with self.ddp.no_sync() if letter == "b" else sync():
                if letter != "n":
                    loss.backward()
        elif letter == "e":
            with torch.no_grad():
                self.forward(step)
        elif letter == "E":
            self.forward(step)
        elif letter == "t":
            first = self.forward(step)
            second = self.forward(step, 1)
            (first + second).backward()
        elif letter == "r":
            loss = self.forward(step)
            loss.backward(retain_graph=True)
            loss.backward()
        elif letter == "i":
            self.model.loss(self.model(step, 0), step, 0).backward()
        else:
            self.forward(step).backward()

    def update(self):
        with torch.no_grad():
            for p in self.model.parameters():
                if p.grad is not None:
                    grad = p.grad.to_dense() if p.grad.is_sparse else p.grad
                    p.copy_(torch.clamp(torch.round((p - grad * 0.125) * 4) / 4, -2, 2))

    def zero(self):
        for p in self.model.parameters():
            if p.grad is None or self.job["zero"] == "keep":
                continue
            if self.job["zero"] == "zero":
                p.grad.zero_()
            else:
                p.grad = None

    def record(self, step):
        names = {id(p): name for name, p in self.model.named_parameters()}
        self.note("p", step, ",".join(words(p) for p in self.model.parameters()))
        self.note("b", step, ",".join(words(b) for b in self.model.buffers()))
        # Fails for sparse buckets without a gradient.
        if not any(layers[0][0] == "S" for _, _, layers, _ in self.job["branches"]):
            buckets = self.ddp.reducer._get_zeros_like_grad_buckets()
            self.note("k", step,
                      "/".join(" ".join(names[id(p)] for p in b.parameters()) for b in buckets))
        # Before the first reduction the map is uninitialised memory.
        if (self.job["find"] or self.job["static"]) and self.has_reduced:
            counts = self.ddp.reducer._get_local_used_map().tolist()
            self.note("u", step, " ".join(str(count) for count in counts))


def worker(rank, n_ranks, jobs, answers, port, folder):
    """One rank, for all jobs, in its own process."""
    with open(f"{folder}/{rank}.log", "w", encoding="utf-8") as log:
        os.dup2(log.fileno(), 2)
        try:
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
            torch.set_num_threads(1)
            warnings.simplefilter("ignore")
            with open(f"{folder}/{rank}", "wb") as out:
                for answer in answers(rank, n_ranks, jobs):
                    pickle.dump(answer, out)
                    out.flush()
        except BaseException:  # A process that was forked never returns.
            traceback.print_exc(file=log)
            log.flush()
            os._exit(1)
        os._exit(0)


def answer_all(rank, n_ranks, jobs):
    def make(store, own, size, timeout):
        return RecordingGroup(dist.ProcessGroupGloo(store, own, size, timeout), own, size)

    extra = {} if torch.__version__.startswith("1.") else {"devices": ["cpu"]}
    dist.Backend.register_backend("recording", make, **extra)
    dist.init_process_group("gloo", rank=rank, world_size=n_ranks)
    groups = {n: dist.new_group(list(range(n)), backend="recording") for n in range(1, n_ranks + 1)}
    for job in jobs:
        answer = {}
        if rank < job["world"]:
            group = groups[job["world"]]
            group.calls.clear()
            run = Run(job, rank, group, answer)
            run.all()
            del run
            answer[f"c {rank}"] = ",".join(group.calls)
        yield answer


def answers_of(probe, lines, mistake):
    """What our probe answers, as run_in_processes() gives PyTorch's."""
    done = subprocess.run([probe, mistake], input="\n".join(lines) + "\n", stdout=subprocess.PIPE,
                          text=True, check=True)
    return [dict(entry.split("=", 1) for entry in line.split(";"))
            for line in done.stdout.splitlines()]


def load(path, n):
    answers = []
    if not os.path.exists(path):
        return answers
    with open(path, "rb") as file:
        while len(answers) < n:
            try:
                answers.append(pickle.load(file))
            except EOFError:
                break
    return answers


def run_jobs(lines):
    """Answers in the order of lines; a job that did not end everywhere is {"x": "..."}."""
    jobs = [parse(line) for line in lines]
    return run_in_processes(jobs, max(job["world"] for job in jobs), answer_all)


def run_in_processes(jobs, n_ranks, answers):
    """What all ranks together know of each job: `answers(rank, n_ranks, jobs)` yields one's part of each, {} for a
    job that it has no part in. A job that did not end everywhere is {"x": "..."}."""
    with tempfile.TemporaryDirectory() as folder, reserved_ports() as port:
        children = []
        for rank in range(n_ranks):
            child = os.fork()
            if child == 0:
                worker(rank, n_ranks, jobs, answers, port, folder)
            children.append(child)
        wait_for(children, folder, n_ranks)
        by_rank = [load(f"{folder}/{rank}", len(jobs)) for rank in range(n_ranks)]
        report_crashes(folder, n_ranks)
    merged = []
    for index in range(len(jobs)):
        parts = [own[index] for own in by_rank if index < len(own)]
        answer = dict(itertools.chain.from_iterable(part.items() for part in parts))
        merged.append(answer if len(parts) == n_ranks else {"x": "PyTorch did not finish this job"})
    return merged


def wait_for(children, folder, n_ranks):
    """Until all ended, or nothing was written for a while."""
    left = set(children)
    last, since = None, time.monotonic()
    while left:
        for child in list(left):
            if os.waitpid(child, os.WNOHANG)[0] == child:
                left.discard(child)
        sizes = [os.path.getsize(p) if os.path.exists(p) else 0
                 for p in (f"{folder}/{rank}" for rank in range(n_ranks))]
        if sizes != last:
            last, since = sizes, time.monotonic()
        if time.monotonic() - since > PATIENCE_S:
            for child in left:
                os.kill(child, 9)
                os.waitpid(child, 0)
            return
        time.sleep(0.02)


def report_crashes(folder, n_ranks):
    for rank in range(n_ranks):
        with open(f"{folder}/{rank}.log", encoding="utf-8") as log:
            text = log.read()
        if "Traceback" in text:
            print(f"rank {rank}:", text[text.index("Traceback"):])
