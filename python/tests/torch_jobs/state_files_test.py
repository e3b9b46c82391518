"""State dicts as files: PyTorch and safetensors themselves say what is in them."""
from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import zipfile
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from torch import nn

safetensors = pytest.importorskip("safetensors.torch")
LOCKSTEP = Path(os.environ["LOCKSTEP_BUILD"]) / "bin" / "lockstep"

IN_SAFETENSORS = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8,
    torch.bool, torch.complex64)
DTYPES = (*IN_SAFETENSORS, torch.complex128, torch.float8_e8m0fnu)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([LOCKSTEP, *map(str, arguments)], capture_output=True, text=True)


def some(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Every byte counts: values are drawn as bytes, except where only 0 and 1 are valid."""
    generator = torch.Generator().manual_seed(len(shape))
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    size = torch.empty((), dtype=dtype).element_size()
    raw = torch.randint(0, 256, (*shape, size), generator=generator, dtype=torch.uint8)
    return raw.view(dtype).reshape(shape)


def bytes_of(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).numpy()) if flat.numel() else b""


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> None:
    assert list(left) == list(right) or set(left) == set(right)
    for name, tensor in left.items():
        assert tensor.dtype == right[name].dtype, name
        assert tensor.shape == right[name].shape, name
        assert bytes_of(tensor) == bytes_of(right[name]), name


def through_safetensors(path: Path) -> dict[str, torch.Tensor]:
    out = path.with_suffix(".safetensors")
    done = run("export", path, "--safetensors", out)
    assert done.returncode == 0, done.stderr
    return safetensors.load_file(out)


def through_torch(path: Path) -> dict[str, torch.Tensor]:
    out = path.with_suffix(".out.pt")
    done = run("export", path, "--torch", out)
    assert done.returncode == 0, done.stderr
    loaded: dict[str, torch.Tensor] = torch.load(out, weights_only=True)
    return loaded


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (0,), (3, 0, 2), (2, 3, 4), (2, 1, 3, 1, 2)], ids=str)
def test_every_type_and_shape_comes_through(tmp_path: Path, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    state = {"a.weight": some(dtype, *shape), "b": some(torch.float32, 2)}
    torch.save(state, tmp_path / "state.pt")
    same(state, through_torch(tmp_path / "state.pt"))
    if dtype not in IN_SAFETENSORS:
        return
    same(state, through_safetensors(tmp_path / "state.pt"))
    safetensors.save_file(state, tmp_path / "theirs.safetensors")
    same(state, through_torch(tmp_path / "theirs.safetensors"))
    equal = run("diff", tmp_path / "state.pt", tmp_path / "theirs.safetensors")
    assert (equal.returncode, equal.stdout) == (0, "equal: 2 tensors\n")


def test_views_strides_and_shared_storages_are_resolved(tmp_path: Path) -> None:
    base = torch.arange(24, dtype=torch.float32)
    grid = base.view(4, 6)
    state = {"base": base, "transposed": grid.t(), "column": grid[:, 2], "offset": base[5:9],
             "expanded": torch.tensor([1.5]).expand(3, 4), "every third": base[::3], "reversed": grid.flip(0),
             "none of it": base[24:], "scalar": base[7]}
    torch.save(state, tmp_path / "state.pt")
    same(state, through_torch(tmp_path / "state.pt"))
    same({name: tensor.contiguous() for name, tensor in state.items()},
         through_safetensors(tmp_path / "state.pt"))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_models_and_checkpoints_of_all_protocols_come_through(tmp_path: Path, protocol: int) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "note": "best",
                "lr": 0.1, "size": torch.Size([2, 3]), "list": [torch.ones(2), None, True]},
               tmp_path / "state.pt", pickle_protocol=protocol)
    found = through_torch(tmp_path / "state.pt")
    for name, tensor in model.state_dict().items():
        assert bytes_of(found[f"model/{name}"]) == bytes_of(tensor)
    moments = optimizer.state_dict()["state"]
    assert bytes_of(found["optimizer/state/2/exp_avg"]) == bytes_of(moments[2]["exp_avg"])
    assert bytes_of(found["list/0"]) == bytes_of(torch.ones(2))
    with safetensors.safe_open(_safe(tmp_path / "state.pt"), "pt") as file:
        assert file.metadata()["epoch"] == "3"
        assert file.metadata()["note"] == "best"
        assert file.metadata()["lr"] == "0.1"
        assert file.metadata()["list/1"] == "None"


def _safe(path: Path) -> Path:
    through_safetensors(path)
    return path.with_suffix(".safetensors")


def test_parameters_and_a_plain_state_dict_keep_their_names(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    torch.save(OrderedDict(model.state_dict()), tmp_path / "a.pt")
    torch.save({name: nn.Parameter(value) for name, value in model.state_dict().items()}, tmp_path / "b.pt")
    same(dict(model.state_dict()), through_torch(tmp_path / "a.pt"))
    same(dict(model.state_dict()), through_torch(tmp_path / "b.pt"))
    fresh = nn.Linear(3, 2)
    fresh.load_state_dict(through_torch(tmp_path / "a.pt"))
    assert torch.equal(fresh.weight, model.weight)


def test_differences_are_named(tmp_path: Path) -> None:
    state = {"0.weight": torch.arange(6, dtype=torch.float32).view(2, 3), "0.bias": torch.zeros(2)}
    torch.save(state, tmp_path / "a.pt")
    changed = {name: tensor.clone() for name, tensor in state.items()}
    changed["0.weight"][1, 2] = 5.25
    safetensors.save_file(changed, tmp_path / "b.safetensors")
    done = run("diff", tmp_path / "a.pt", tmp_path / "b.safetensors")
    assert done.returncode == 1
    # float32 numbers between 4 and 8 are 2^-21 apart.
    assert done.stdout == ("first difference: tensor `0.weight`[1, 2]: 5 against 5.25; 1 of 6 elements "
                           "differ, by 0.25 at most, 524288 ulps of float32, at [1, 2]\n")
    del changed["0.bias"]
    changed["0.weight"] = state["0.weight"].double()
    torch.save(changed, tmp_path / "c.pt")
    done = run("diff", tmp_path / "a.pt", tmp_path / "c.pt")
    assert done.stdout == ("first difference: tensor `0.weight`: float32[2, 3] against float64[2, 3]; "
                           "2 tensors differ\n  tensor `0.bias` is only in the first file\n")
    # The sign of a zero is a bit like any other.
    torch.save({"z": torch.tensor([0.0])}, tmp_path / "d.pt")
    torch.save({"z": torch.tensor([-0.0])}, tmp_path / "e.pt")
    done = run("diff", tmp_path / "d.pt", tmp_path / "e.pt")
    assert done.returncode == 1
    assert done.stdout.endswith("1 of 1 element differs, in the sign of a zero\n")


def places(tensor: torch.Tensor) -> list[int]:
    """The place of each element among all numbers of its type, both zeros being 0: from its bits."""
    words = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    sign = 1 << (8 * tensor.element_size() - 1)
    bits = [number & (2 * sign - 1) for number in tensor.flatten().view(words).tolist()]
    return [-(number - sign) if number & sign else number for number in bits]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_distances_are_those_that_the_bits_tell(dtype: torch.dtype, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(7)
    left = torch.randn(40, 25, generator=generator, dtype=torch.float64).to(dtype)
    right = torch.where(torch.rand(40, 25, generator=generator) < 0.3,
                        (left.double() * (1 + 0.03 * torch.randn(40, 25, generator=generator))).to(dtype), left)
    right[3, 4] = -left[3, 4]
    torch.save({"w": left}, tmp_path / "a.pt")
    torch.save({"w": right}, tmp_path / "b.pt")

    done = run("diff", tmp_path / "a.pt", tmp_path / "b.pt", "--json")

    apart = [abs(a - b) for a, b in zip(places(left), places(right))]
    size = (left.double() - right.double()).abs().flatten().tolist()
    (tensor,) = json.loads(done.stdout)["tensors"]
    found = tensor["distance"]
    assert done.returncode == 1
    assert found["elements"] == 1000
    assert found["different"] == sum(number > 0 for number in apart) > 100
    assert found["first"] == next(i for i, number in enumerate(apart) if number)
    assert (found["largest"], found["largest_at"]) == (max(size), size.index(max(size)))
    assert found["ulps"] == min(max(apart), 2**63 - 1)
    assert found["ulps_at"] == apart.index(max(apart))
    assert found["ulps_of"] == str(dtype).removeprefix("torch.")


class Runs:
    """What a hostile file would have Python call."""

    def __init__(self, *call: object) -> None:
        self.call = call

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self.call[0], tuple(self.call[1:])


@pytest.mark.parametrize("value, named", [
    (Runs(os.system, "touch ran"), "'posix.system'"), (Runs(eval, "1"), "'__builtin__.eval'"),
    (torch.ones(2).to_sparse(), "'torch._utils._rebuild_sparse_tensor'"),
    (nn.Linear(1, 1), "'torch.nn.modules.linear.Linear'"), ({1, 2}, "'__builtin__.set'"),
    (torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "'torch._utils._rebuild_qtensor'"),
], ids=["called", "evaluated", "sparse", "module", "set", "quantized"])
def test_nothing_is_executed_and_what_is_refused_has_a_name(tmp_path: Path, value: object, named: str,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"a": torch.ones(1), "b": value}, tmp_path / "state.pt")
    done = run("export", tmp_path / "state.pt", "--torch", tmp_path / "out.pt")
    assert done.returncode == 2
    assert named in done.stderr and "which a state dict does not hold" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "ran").exists() and not (tmp_path / "out.pt").exists()


def repacked(source: Path, to: Path, change: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(to, "w", compression) as new:
        for name in old.namelist():
            inside = name.split("/", 1)[1]
            data = change.get(inside, old.read(name))
            if data:
                new.writestr(name, data)


def test_damaged_files_are_refused_in_a_sentence(tmp_path: Path) -> None:
    good = tmp_path / "good.pt"
    torch.save({"a": torch.arange(100.0)}, good)
    data = good.read_bytes()
    cases = {"cut.pt": (data[:-30], "cut off"), "empty.pt": (b"", "neither safetensors nor"),
             "text.pt": (b"hello, who is there?", "neither safetensors nor"),
             "bit.pt": (data.replace(torch.tensor(50.0).numpy().tobytes(), b"abcd"), "checksum")}
    old = io.BytesIO()
    torch.save({"a": torch.ones(2)}, old, _use_new_zipfile_serialization=False)
    cases["old.pt"] = (old.getvalue(), "before 1.6")
    for name, (bad, says) in cases.items():
        (tmp_path / name).write_bytes(bad)
    changes = {"packed.pt": ({}, zipfile.ZIP_DEFLATED, "is compressed"),
               "big.pt": ({"byteorder": b"big"}, 0, "big endian"),
               "short.pt": ({"data/0": b"1234"}, 0, "over the end of its storage"),
               "gone.pt": ({"data/0": b""}, 0, "storage is not in the file"),
               "none.pt": ({"data.pkl": b""}, 0, "without data.pkl"),
               "plain.pt": ({"data.pkl": pickle.dumps([1, "a"], 2) + b"rest"}, 0, "")}
    for name, (change, compression, _) in changes.items():
        repacked(good, tmp_path / name, change, compression)
    said = {name: says for name, (_, says) in cases.items()} | {name: says for name, (_, _, says) in changes.items()}
    for name, says in said.items():
        done = run("diff", tmp_path / name, good)
        if not says:
            assert done.returncode == 1, name  # A list of a number and a text: no tensors.
            continue
        assert done.returncode == 2, (name, done.stdout)
        assert says in done.stderr and name in done.stderr, (name, done.stderr)
        assert len(done.stderr.splitlines()) == 1


def test_a_small_file_cannot_become_large(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(1).expand(1 << 20, 1 << 20)}, tmp_path / "bomb.pt")
    done = run("export", tmp_path / "bomb.pt", "--torch", tmp_path / "out.pt")
    assert done.returncode == 2 and "16 times the file" in done.stderr


def test_what_safetensors_cannot_hold_is_named(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(2, dtype=torch.complex128)}, tmp_path / "state.pt")
    done = run("export", tmp_path / "state.pt", "--safetensors", tmp_path / "out")
    assert done.returncode == 2 and "safetensors has no complex128" in done.stderr
