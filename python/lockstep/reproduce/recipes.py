"""What breaks a small healthy job so that it shows a finding: once for the simulator, once for PyTorch."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lockstep.reproduce.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.report import Finding
    from lockstep.reproduce.facts import Facts

Ranks = tuple[int, ...]


@dataclass
class Recipe:
    """Changes of the small job. Lines of TOML and of Python are written as they stand here."""

    toml: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)  # Of the scenario, instead of the facts'.
    python: dict[str, str] = field(default_factory=dict)  # Places of the script, and what goes there.
    steps: int = 0  # At least this many.
    batch: int = 0  # Rows that a batch of the script has at least.
    differs: list[str] = field(default_factory=list)  # What is not as it was in the trace.


def toml_list(ranks: Ranks) -> str:
    return "[" + ", ".join(map(str, ranks)) + "]"


def where(ranks: Ranks, facts: Facts) -> str:
    """The key of a bug that only some ranks have."""
    return f", ranks = {toml_list(ranks)}" if 0 < len(ranks) < facts.n else ""


def condition(ranks: Ranks, facts: Facts, step: int | None = None) -> str:
    parts = [f"rank in {ranks}"] if 0 < len(ranks) < facts.n else []
    parts += [f"step == {step}"] if step is not None else []
    return " and ".join(parts) or "True"


def override(ranks: Ranks, key: str, value: str) -> str:
    return f'override = [ {{ ranks = {toml_list(ranks)}, set = {{ "{key}" = {value} }} }} ]'


def tensor_of(finding: Finding, facts: Facts, recipe: Recipe) -> str:
    """The tensor of the finding, where the small job has it."""
    if facts.is_own_network() and any(finding.tensor in rank.sizes for rank in facts.ranks):
        return finding.tensor
    recipe.differs.append(f"tensor {finding.tensor} is played by 0.weight")
    return "0.weight"


def lr_per_rank(finding: Finding, facts: Facts) -> Recipe:
    rates = facts.rates()
    base = next((rate for rank, rate in enumerate(rates) if rate and rank not in finding.ranks), 0.125)
    own = next((rates[rank] for rank in finding.ranks if rank < facts.n and rates[rank]), 2 * base)
    return Recipe([override(finding.ranks, "optimizer.lr", f"{own!r}")],
                  python={"lr": f"{own!r} if {condition(finding.ranks, facts)} else {base!r}"})


def bypass_wrapper(finding: Finding, facts: Facts) -> Recipe:
    inside = {(rank.rank, event["at"][4]) for rank in facts.ranks for event in rank.forwards
              if not event.get("through_wrapper", True)}
    wrapped = any(event.get("through_wrapper", True) for rank in facts.ranks
                  if rank.rank in finding.ranks for event in rank.forwards)
    step = finding.step if wrapped or not inside else None
    at = f", at = {{ step = {step} }}" if step is not None else ""
    return Recipe([f'bug = [ {{ kind = "bypass-wrapper"{where(finding.ranks, facts)}{at} }} ]'],
                  python={"forward": f"(model if {condition(finding.ranks, facts, step)} else wrapper)(x)"},
                  steps=(step or 0) + 1)


def no_set_epoch(finding: Finding, facts: Facts) -> Recipe:
    ranks = condition(finding.ranks, facts)
    per_epoch = -(-facts.dataset_size() // (facts.n * facts.batch()))
    return Recipe([f'bug = [ {{ kind = "no-set-epoch"{where(finding.ranks, facts)} }} ]'],
                  values={"loop": "epochs = 2"}, steps=2 * per_epoch + 1,
                  python={"set_epoch": f"if not ({ranks}):\n    sampler.set_epoch(epoch)"})


def nudged_at_wrapping(finding: Finding, facts: Facts) -> Recipe:
    recipe = Recipe(differs=["the value that was written is not in the trace"])
    tensor = tensor_of(finding, facts, recipe)
    recipe.toml = [f'bug = [ {{ kind = "write-tensor", ranks = {toml_list(finding.ranks)}, tensor = "{tensor}", '
                   'element = 0, value = 0.25, at = { event = "wrap", when = "after" } } ]']
    recipe.python = {"after_wrap": f"if {condition(finding.ranks, facts)}:\n    with torch.no_grad():\n"
                                   f'        model.get_parameter("{tensor}").view(-1)[0] = 0.25'}
    return recipe


def nudged_after_step(finding: Finding, facts: Facts) -> Recipe:
    return _nudged(finding, facts, finding.step or 0, "before")


def nudged_between_steps(finding: Finding, facts: Facts) -> Recipe:
    return _nudged(finding, facts, max(0, (finding.step or 0) - 1), "after")


def _nudged(finding: Finding, facts: Facts, step: int, when: str) -> Recipe:
    """Ranks write to the tensor before or after the optimizer of this step."""
    recipe = Recipe(differs=["the value that was written is not in the trace"],
                    steps=(finding.step or 0) + 1)
    tensor = tensor_of(finding, facts, recipe)
    recipe.toml = [f'bug = [ {{ kind = "write-tensor", ranks = {toml_list(finding.ranks)}, tensor = "{tensor}", '
                   f'element = 0, value = 0.25, at = {{ step = {step}, event = "step", when = "{when}" }} }} ]']
    recipe.python = {f"{when}_step": f"if {condition(finding.ranks, facts, step)}:\n"
                                     "    with torch.no_grad():\n        "
                                     f'model.get_parameter("{tensor}").view(-1)[0] = 0.25'}
    return recipe


def clip_one_rank(finding: Finding, facts: Facts) -> Recipe:
    clips = [clip for rank in facts.ranks for clip in rank.clips if clip["clip"] == "norm"]
    ranks = tuple(rank.rank for rank in facts.ranks if rank.clips) or finding.ranks
    limit = float(clips[0]["limit"]) if clips else 0.125
    recipe = Recipe([override(ranks, "clip.norm", f"{limit!r}")],
                    python={"before_step": f"if {condition(ranks, facts)}:\n    "
                                           "torch.nn.utils.clip_grad_norm_(wrapper.parameters(), "
                                           f"{limit!r})"})
    if not clips:
        recipe.differs.append("the limit is not in the trace")
    return recipe


def no_sync_one_rank(finding: Finding, facts: Facts) -> Recipe:
    n = max(2, *(rank.accumulate for rank in facts.ranks))
    quiet = tuple(rank.rank for rank in facts.ranks
                  if any(not event.get("synchronizing", True) for event in rank.forwards)) or finding.ranks
    return Recipe([override(quiet, "loop.no_sync", "true")],
                  values={"loop": f"steps = 2, accumulate = {n}"},
                  python={"accumulate": str(n), "no_sync": condition(quiet, facts)}, steps=2)


def last_micro_unsynced(finding: Finding, facts: Facts) -> Recipe:
    n = max(2, *(rank.accumulate for rank in facts.ranks))
    recipe = Recipe([f'bug = [ {{ kind = "bypass-wrapper", at = {{ micro = {n - 1}, event = "forward" }} }} ]'],
                    values={"loop": f"steps = {(finding.step or 0) + 1}, accumulate = {n}"},
                    python={"accumulate": str(n), "forward": "(model if micro + 1 == ACCUMULATE else wrapper)(x)"},
                    steps=(finding.step or 0) + 1)
    recipe.differs.append("the last micro-step goes around the wrapper, and its gradients stay as local as in no_sync")
    return recipe


def step_left_out(finding: Finding, facts: Facts) -> Recipe:
    """The first step that the ranks do not share is the one before it is seen."""
    step = max(0, (finding.step or 1) - 1)
    return Recipe([f'bug = [ {{ kind = "skip-step", ranks = {toml_list(finding.ranks)}, '
                   f'at = {{ step = {step} }} }} ]'],
                  python={"step": f"if not ({condition(finding.ranks, facts, step)}):\n"
                                  "    optimizer.step()"}, steps=step + 3)


def zero_grad_forgotten(finding: Finding, facts: Facts) -> Recipe:
    return Recipe([override(finding.ranks, "loop.zero_grad", '"never"')],
                  python={"zero_grad": f"if not ({condition(finding.ranks, facts)}):\n"
                                       "    optimizer.zero_grad()"},
                  steps=(finding.step or 0) + 1)


def mean_of_means(finding: Finding, facts: Facts) -> Recipe:
    step = finding.step or 0
    declared = next((event["declared"] for rank in facts.ranks for event in rank.batches
                     if event["declared"] != "rank-mean"), "sample-mean")
    windows = [facts.window_of(rank, step, declared == "token-mean") for rank in facts.ranks]
    n = len(windows[0])
    if n > 1 and all(window == windows[0] for window in windows):
        # Of samples that all ranks divide alike, nothing more than the plain mean is asked.
        windows = [window[::-1] if rank % 2 else window for rank, window in enumerate(windows)]
    rows = ", ".join(f"[{', '.join(map(str, window * (step + 1)))}]" for window in windows)
    recipe = Recipe(values={"loader": f'sampler = "batches_by_rank", batches_by_rank = [{rows}]',
                            "loss": f'kind = "mse", declared = {quoted(declared)}',
                            "size": str(sum(sum(window) for window in windows) * (step + 1)),
                            "loop": f"steps = {step + 1}"},
                    python={"batch": f"{windows!r}[rank][micro]", "declared": declared, "shared": ""},
                    batch=max(max(window) for window in windows))
    if n > 1:
        recipe.values["loop"] += f", accumulate = {n}, no_sync = true"
        recipe.python |= {"accumulate": str(n), "no_sync": "True"}
    if declared == "token-mean":
        recipe.values["loss"] = 'kind = "mse"'
        recipe.python["declared"] = "sample-mean"
        recipe.differs.append("samples play the part of tokens" +
                              (", in reverse on every other rank" if n > 1 else ""))
    return recipe


def local_buffers(finding: Finding, facts: Facts) -> Recipe:
    widths = ", ".join(map(str, facts.widths()))
    recipe = Recipe(['ddp = { broadcast_buffers = false }', 'policy = { buffers = "broadcast0" }'],
                    values={"model": f'kind = "bn", widths = [{widths}], init = {{ kind = "pytorch", seed = 3 }}'},
                    python={"batch_norm": "", "ddp": ", broadcast_buffers=False", "buffers": "broadcast0"})
    recipe.differs.append(f"buffer {finding.tensor} is one of a small network with batch norm")
    return recipe


def additional_call(finding: Finding, facts: Facts) -> Recipe | None:
    """Ranks that made a call of their own between a step and the next forward, and the others did not."""
    made_there = {rank.rank: call for rank in facts.ranks for call in rank.calls
                  if (call.group, call.seq) == (finding.group, finding.seq)
                  and call.op not in ("send", "recv")}
    own = tuple(rank for rank, call in made_there.items() if call.after == "step")
    if not own or len(own) == len(made_there):
        return None
    call = made_there[own[0]]
    if call.group != 0 or call.step < 1 or call.op not in ("all_reduce", "barrier"):
        return None
    reduce = call.reduce.upper() if call.reduce in ("max", "min", "product") else "SUM"
    made = "dist.barrier()" if call.op == "barrier" else \
        f"dist.all_reduce(torch.zeros(1), op=dist.ReduceOp.{reduce})"
    step = call.step - 1
    recipe = Recipe([f'bug = [ {{ kind = "extra-collective", ranks = {toml_list(own)}, '
                     f'op = "{call.op}", site = {quoted(call.site)}, at = {{ step = {step} }} }} ]'],
                    python={"after_step": f"if {condition(own, facts, step)}:\n"
                                          f"    {made}"}, steps=step + 2)
    recipe.differs.append("the additional call reduces one number with a sum")
    return recipe


def same_randomness(finding: Finding, facts: Facts) -> Recipe:
    recipe = Recipe(values={"loader": f"batch = {facts.batch()}, shuffle = true, "
                                      'augment = { stream = "worker", seed_by_rank = false }'},
                    python={"dropout": ""}, steps=(finding.step or 0) + 1)
    recipe.differs.append("on simulated ranks, an augmentation draws instead")
    if finding.tensor != "dropout":
        recipe.differs.append(f"on ranks of PyTorch, a dropout draws instead of: {finding.tensor}")
    return recipe


def not_divided(_finding: Finding, facts: Facts) -> Recipe:
    """A sampler that knows nothing of ranks, and draws alike on all of them."""
    recipe = Recipe(values={"loader": f'batch = {facts.batch()}, sampler = "random"'},
                    python={"sampler": "sampler = RandomSampler(data, generator=torch.Generator().manual_seed(3))",
                            "data_imports": "RandomSampler", "set_epoch": "pass"})
    recipe.differs.append("the sampler draws each sample once")
    return recipe


STREAM = '''

class Stream(IterableDataset):
    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return iter(self.rows)
'''


def stream_not_divided(_finding: Finding, facts: Facts) -> Recipe:
    return Recipe(values={"loader": f'batch = {facts.batch()}, sampler = "stream"', "data": ', shard = "none"'},
                  python={"definitions": STREAM, "sampler": "data = Stream(data)", "loading": "",
                          "data_imports": "IterableDataset", "set_epoch": "pass"})


CLONES = '''

class Noisy(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        x, y = self.rows[index]
        return x + random.gauss(0, 0.1), y


def seed_worker(_worker):
    random.seed(42)
'''


def clones_of_workers(_finding: Finding, facts: Facts) -> Recipe:
    recipe = Recipe(values={"loader": f'batch = {facts.batch()}, workers = 2, augment = {{ stream = "inherited" }}'},
                    python={"imports": "import random\n", "data_imports": "Dataset", "definitions": CLONES,
                            "sampler": "sampler = DistributedSampler(data := Noisy(data))",
                            "loading": ", sampler=sampler, num_workers=2, worker_init_fn=seed_worker"}, steps=2)
    recipe.differs.append("each loader has two workers, and noise is drawn from Python's generator")
    return recipe


AUTOCAST = '''

def forward(wrapper, x, dtype):
    with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
        return wrapper(x).float()
'''


def autocast_on_one_rank(finding: Finding, facts: Facts) -> Recipe | None:
    """Each rank computes in what its first forward of the step was in."""
    words: dict[int, str] = {}
    for rank in facts.ranks:
        for event in rank.forwards:
            if event["at"][4] == (finding.step or 0) and event.get("synchronizing", True):
                words.setdefault(rank.rank, event.get("autocast", ""))
    usual = next((word for rank, word in words.items() if rank not in finding.ranks), "")
    own = next((word for rank, word in words.items() if rank in finding.ranks), "")
    types = {"": "None", "f16": "torch.float16", "bf16": "torch.bfloat16"}
    if usual == own or usual not in types or own not in types:
        return None
    key, value = ("autocast.dtype", f'"{own}"') if usual and own else ("autocast.enabled", "true" if own else "false")
    return Recipe([f'autocast = {{ dtype = "{usual or own}", enabled = {"true" if usual else "false"} }}',
                   override(finding.ranks, key, value)],
                  python={"definitions": AUTOCAST, "forward": f"forward(wrapper, x, {types[own]} if "
                          f"{condition(finding.ranks, facts)} else {types[usual]})"},
                  steps=(finding.step or 0) + 1)


BY_CAUSE: dict[str, Callable[[Finding, Facts], Recipe | None]] = {
    "autocast-on-one-rank": autocast_on_one_rank,
    "lr-per-rank": lr_per_rank,
    "bypass-wrapper": bypass_wrapper,
    "no-set-epoch": no_set_epoch,
    "clip-one-rank": clip_one_rank,
    "last-micro-unsynced": last_micro_unsynced,
    "no-sync-one-rank": no_sync_one_rank,
    "zero-grad-forgotten": zero_grad_forgotten,
    "token-weighted-mean": mean_of_means,
    "bn-local-eval": local_buffers,
    "rng-same-dropout": same_randomness,
    "no-distributed-sampler": not_divided,
    "weighted-not-sharded": not_divided,
    "iterable-unsharded": stream_not_divided,
    "worker-seed-clones": clones_of_workers,
}


def recipe_for(finding: Finding, facts: Facts) -> Recipe | None:
    """How a small training job shows this finding; None where no recipe is known."""
    if not facts.trains():
        return None
    if finding.law == "collectives-match":
        return additional_call(finding, facts)
    if finding.law == "progress":
        return None if finding.cause not in ("bypass-wrapper", "no-sync-one-rank") else \
            BY_CAUSE[finding.cause](finding, facts)
    if finding.cause == "nan-skip-one-rank" and finding.law in ("replicas-equal", "optimizer-equal"):
        return step_left_out(finding, facts)
    if finding.cause in BY_CAUSE:
        return BY_CAUSE[finding.cause](finding, facts)
    if finding.cause == "optimizer-options-differ":
        return None  # Any other write would show the same difference, and not why.
    if finding.law == "init-equal" and finding.tensor:
        return nudged_at_wrapping(finding, facts)
    if finding.law == "replicas-equal" and finding.tensor and finding.event == "found":
        return nudged_between_steps(finding, facts)
    if finding.law == "replicas-equal" and finding.tensor and finding.event == "step":
        return nudged_after_step(finding, facts)
    return None
