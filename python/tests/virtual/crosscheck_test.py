"""Scenarios in exact arithmetic: our own DDP on simulated ranks and PyTorch's on virtual ranks agree in every digest."""
from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from lockstep import command, crosscheck
from lockstep.crosscheck import program
from virtual_job import prepare


FEW = 8


def drawn(seed: int) -> str:
    """A scenario that `lockstep crosscheck --against torch` takes. No operation of it rounds but the declared one."""
    rng = random.Random(f"crosscheck {seed}")
    ranks = rng.choice((1, 2, 2, 4, 4))
    n_in, n_out = rng.choice((1, 2, 3)), rng.choice((1, 2))
    batch = rng.choice((1, 2, 4))
    accumulate = rng.choice((1, 1, 2))
    kind = rng.choice(("linear", "mlp", "mlp"))
    n_rows = ranks * batch * accumulate * rng.choice((1, 2)) - rng.choice((0, 0, ranks // 2))
    rows = ", ".join(f"{{ x = {[rng.randint(-4, 4) / 2 for _ in range(n_in)]}, y = {[rng.randint(-4, 4) / 2 for _ in range(n_out)]} }}"
                     for _ in range(n_rows))
    shape = f"in = {n_in}, out = {n_out}" if kind == "linear" else \
        f"widths = [{n_in}, {rng.choice((2, 3))}, {n_out}], activation = \"{rng.choice(('relu', 'none'))}\""
    init = rng.choice((f'kind = "grid", seed = {rng.randrange(100)}, grid = {rng.choice((1, 2, 3))}', 'kind = "constant", value = 0.5'))
    momentum = rng.choice((0.0, 0.5, 0.75))
    sgd = f"lr = {rng.choice((0.0625, 0.125, 0.25))}, momentum = {momentum}"
    sgd += f", nesterov = {rng.choice(('true', 'false'))}" if momentum else ""
    sgd += rng.choice(("", "", ", weight_decay = 0.0625", ", maximize = true"))
    words = {True: "true", False: "false"}
    flag = lambda: words[rng.random() < 0.5]  # noqa: E731
    ddp = rng.choice(("", f"gradient_as_bucket_view = {flag()}", "bucket_cap_mb = 1", "find_unused_parameters = true",
                      f"broadcast_buffers = {flag()}, gradient_as_bucket_view = true"))
    loop = rng.choice((f"steps = {rng.choice((2, 3, 5))}", f"epochs = {rng.choice((1, 2, 3))}"))
    sampler = f'sampler = "distributed", shuffle = {flag()}, set_epoch = {flag()}, seed = {rng.randrange(50)}'
    return f'''format = 1
world = {{ ranks = {ranks} }}
exact = {{ grid = {rng.choice((2, 4, 6))}, clamp = {rng.choice((4.0, 8.0))} }}
model = {{ kind = "{kind}", {shape}, bias = {flag()}, init = {{ {init} }} }}
data = {{ kind = "inline", rows = [ {rows} ] }}
loader = {{ batch = {batch}, {sampler} }}
loss = {{ kind = "{'l1' if n_out == 1 and rng.random() < 0.2 else 'mse'}" }}
optimizer = {{ kind = "sgd", {sgd} }}
loop = {{ {loop}, accumulate = {accumulate}, no_sync = {words[accumulate > 1 and rng.random() < 0.7]}, zero_grad = "{rng.choice(('none', 'zero'))}" }}
ddp = {{ {ddp} }}
'''


def write(folder: Path, text: str) -> Path:
    path = folder / "job.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("seed", range(FEW))  # `./dev soak` draws more.
def test_a_scenario_has_the_digests_of_pytorch(seed: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    prepare()
    code = crosscheck.main([str(write(tmp_path, drawn(seed))), "--against", "torch"])
    out, err = capfd.readouterr()
    assert (code, out[:7]) == (0, "equal: "), out + err + drawn(seed)
    assert int(out.split()[1]) > 10


JOB = '''format = 1
world = { ranks = 2 }
exact = { grid = 4, clamp = 8.0 }
model = { kind = "mlp", widths = [2, 3, 1], init = { kind = "grid", seed = 5, grid = 2 } }
data = { rows = [ { x = [1, 2], y = [1] }, { x = [-1, 1], y = [0] }, { x = [2, -1], y = [3] }, { x = [0.5, 1], y = [-1] },
                  { x = [1, 0], y = [2] }, { x = [3, 1], y = [1] }, { x = [0, 1], y = [0.5] }, { x = [1, 1], y = [-2] } ] }
loader = { batch = 1, shuffle = true, seed = 3 }
loss = { kind = "mse" }
optimizer = { kind = "sgd", lr = 0.125, momentum = 0.5, nesterov = true, weight_decay = 0.125 }
loop = { epochs = 2, accumulate = 2, no_sync = true }
'''


@pytest.mark.parametrize(("translated", "wrongly", "says"), [
    ("momentum=0.5", "momentum=0.25", "the optimizer's state after the step|parameters after the step"),
    ("nesterov=True", "nesterov=False", "parameters after the step"),
    ("weight_decay=0.125", "weight_decay=0.0", "parameters after the step|optimizer's state"),
    ("lr=0.125", "lr=0.0625", "parameters after the step"),
    ("shuffle=True", "shuffle=False", "step 0, rank 0: samples"),
    ("seed=3", "seed=4", "step 0, rank 0: "),
    ("sampler.set_epoch(epoch)", "pass", "step 2, rank 0: "),
    ("ACCUMULATE = 0, 2, 2", "ACCUMULATE = 0, 2, 1", "step 0"),
    ("manual_seed(5)", "manual_seed(6)", "parameters ahead of the first step"),
    ("mse_loss", "l1_loss", "own gradients"),
    ("2**4", "2**5", "parameters after the step|optimizer's state"),
    ("nn.ReLU()", "nn.Identity()", "own gradients"),
    ("epoch < EPOCHS", "epoch < 1", "only the simulator recorded|step 2"),
])
def test_one_option_translated_wrongly_is_noticed(
        translated: str, wrongly: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str]) -> None:
    prepare()
    real = program.script

    def wrong(job: crosscheck.scenario.Job) -> str:
        text = real(job)
        assert translated in text
        return text.replace(translated, wrongly)

    monkeypatch.setattr(program, "script", wrong)
    code = crosscheck.main([str(write(tmp_path, JOB)), "--against=torch"])
    out, err = capfd.readouterr()
    assert code == 1, out + err
    assert out.startswith("different: ") and any(each in out for each in says.split("|")), out


@pytest.mark.parametrize(("change", "says"), [
    (('exact = { grid = 4, clamp = 8.0 }', ''), "exact is missing: where sums round"),
    (('kind = "sgd", lr = 0.125, momentum = 0.5, nesterov = true, weight_decay = 0.125', 'kind = "adam"'), "optimizer.kind = 'adam'"),
    (('loss = { kind = "mse" }', 'loss = { kind = "mse" }\nclip = { norm = 1.0 }'), "clip is not written as a PyTorch program"),
    (('accumulate = 2', 'accumulate = 3'), "leaves batches of an epoch over"),
    (('loader = { batch = 1,', 'loader = { batch = 1, workers = 1,'), "loader.workers is not written as a PyTorch program"),
    (('init = { kind = "grid", seed = 5, grid = 2 }', 'init = { kind = "pytorch" }'), "model.init"),
    (('ranks = 2', 'rank = 2'), "rank"),
])
def test_what_has_no_program_is_refused_in_a_sentence(change: tuple[str, str], says: str, tmp_path: Path,
                                                      capfd: pytest.CaptureFixture[str]) -> None:
    assert change[0] in JOB
    code = crosscheck.main([str(write(tmp_path, JOB.replace(*change))), "--against", "torch"])
    out, err = capfd.readouterr()
    assert code == 2 and says in err, out + err


def test_variants_and_settings_reach_both(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    prepare()
    text = JOB + 'variant.other = { optimizer = { lr = 0.25 }, unset = ["optimizer.weight_decay"] }\n'
    kept = tmp_path / "kept.py"
    assert crosscheck.main([str(write(tmp_path, text)), "--against", "torch", "--variant", "other", "--set", "loop.epochs=1",
                            "--write", str(kept), "--trace", str(tmp_path / "traces")]) == 0, capfd.readouterr()
    assert "lr=0.25, momentum=0.5" in kept.read_text() and "weight_decay" not in kept.read_text()
    assert "of 2 steps on 2 ranks" in capfd.readouterr().out
    assert len(list((tmp_path / "traces").glob("*/*.jsonl"))) == 4


def test_a_program_that_fails_is_a_failed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                              capfd: pytest.CaptureFixture[str]) -> None:
    prepare()
    monkeypatch.setattr(program, "script", lambda job: "raise ValueError('not written')\n")
    assert crosscheck.main([str(write(tmp_path, JOB)), "--against", "torch"]) == 3
    assert "ValueError: not written" in capfd.readouterr().err


def test_the_command_is_the_packages(tmp_path: Path) -> None:
    assert crosscheck.is_meant(["job.toml", "--against", "torch"]) and not crosscheck.is_meant(["job.toml", "--against", "gloo"])
    with pytest.raises(SystemExit) as ended:
        command.main(["crosscheck", "--against=torch", "--help"])
    assert ended.value.code == 0
    done = subprocess.run([sys.executable, "-m", "lockstep", "crosscheck", str(tmp_path / "absent.toml"), "--against", "torch"],
                          text=True, capture_output=True)
    assert done.returncode == 2 and "absent.toml" in done.stderr
