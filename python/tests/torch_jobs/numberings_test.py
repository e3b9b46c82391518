"""Which tables of a program number words, where they are found, and that looking for them changes nothing."""
from __future__ import annotations

import contextlib
import functools
import gc
import subprocess
import sys
import types
import weakref
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lockstep.torch
import pytest
import torch
from lockstep.enums import DataPart
from lockstep.torch import numberings
from lockstep.torch.numberings import numbering_of
from lockstep.torch.patches import Patches
from lockstep.torch.variables import (
    DEEPEST,
    MOST_ENTRIES,
    MOST_FOUND,
    MOST_VALUES,
    Search,
    is_of_the_program,
    is_variable,
    look_at_modules,
    search,
)
from torch.utils.data import DataLoader, Dataset

WORDS = ["cat", "dog", "owl"]
GLOBAL_TABLE = {"red": 0, "green": 1, "blue": 2}


def same_words(a: Any, b: Any) -> bool:
    of_a, of_b = numbering_of(a), numbering_of(b)
    assert of_a is not None
    assert of_b is not None
    return torch.equal(of_a.words, of_b.words)


def same_numbers(a: Any, b: Any) -> bool:
    of_a, of_b = numbering_of(a), numbering_of(b)
    assert of_a is not None
    assert of_b is not None
    return torch.equal(of_a.numbers, of_b.numbers)


@pytest.mark.parametrize(("one", "other"), [
    (WORDS, ["dog", "cat", "owl"]),
    (tuple(WORDS), ("dog", "cat", "owl")),
    ({"cat": 0, "dog": 1, "owl": 2}, {"cat": 1, "dog": 0, "owl": 2}),
    ({0: "cat", 1: "dog", 2: "owl"}, {1: "cat", 0: "dog", 2: "owl"}),
    ({"cat": 1, "dog": 2, "owl": 3}, {"cat": 2, "dog": 3, "owl": 4}),
])
def test_tables_of_the_same_words_differ_by_their_numbers_alone(one: Any, other: Any) -> None:
    assert same_words(one, other)
    assert not same_numbers(one, other)


def test_the_order_in_which_a_dict_was_filled_does_not_matter() -> None:
    assert same_numbers({"cat": 0, "dog": 1, "owl": 2}, {"owl": 2, "cat": 0, "dog": 1})


def test_a_list_and_the_dict_that_is_made_of_it_say_the_same() -> None:
    assert same_numbers(WORDS, {word: number for number, word in enumerate(WORDS)})


def test_other_words_are_another_table() -> None:
    assert not same_words(WORDS, ["cat", "dog", "bee"])


@pytest.mark.parametrize("value", [
    ["left", "right"],
    {},
    ["cat", "cat", "dog"],
    ["a cat", "a dog", "an owl"],
    ["data/cat", "data/dog", "data/owl"],
    ["cat.png", "dog.png", "owl.png"],
    ["cat", "dog", "owl" * 40],
    ["cat", "dog", 3],
    ["cat", "dog", ""],
    [1, 2, 3],
    {"cat": 3, "dog": 1, "owl": 1},
    {"cat": 7, "dog": 1, "owl": 2},
    {"cat": 0.5, "dog": 1.5, "owl": 2.5},
    {"cat": True, "dog": False, "owl": True},
    {"cat": "dog", "dog": "owl", "owl": "cat"},
    {1: 2, 2: 3, 3: 1},
    {"cat": 0, "dog": 1, 3: 2},
    ["w" + str(i) for i in range(1 << 17)],
])
def test_what_numbers_no_words_is_left_alone(value: Any) -> None:
    assert numbering_of(value) is None


def test_word_counts_are_not_a_numbering() -> None:
    assert numbering_of(Counter("abbccc")) is None


class Named(Dataset):  # type: ignore[type-arg]
    """Its names have one entry per sample, its labels do not."""

    def __init__(self) -> None:
        self.names = [*WORDS, "bee"]
        self.label_of = {"cat": 0, "dog": 1, "owl": 2, "bee": 3}

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Any:
        raise AssertionError("a sample was read")


class Tokenizer:
    def __init__(self) -> None:
        self.ids = {"a": 0, "b": 1, "c": 2}

    def collate(self, batch: Any) -> Any:
        return batch


def names_in(**variables: Any) -> set[str]:
    found = Search(numbering_of)
    found.variables("here", variables, lists=True)
    return set(found.found)


def test_tables_are_found_in_what_the_program_holds() -> None:
    tokenizer = Tokenizer()
    ids = {"a": 0, "b": 1, "c": 2}

    def collate(batch: Any) -> Any:
        return [ids[word] for word in batch]

    assert names_in(words=WORDS) == {"`words` here"}
    assert names_in(tokenizer=tokenizer) == {"`tokenizer.ids` here"}
    assert names_in(loader=DataLoader(Named(), collate_fn=collate)) == {
        "`loader.dataset.label_of` here", "`loader.collate_fn.ids` here"}
    assert names_in(loader=DataLoader(Named(), collate_fn=tokenizer.collate)) == {
        "`loader.dataset.label_of` here", "`loader.collate_fn.ids` here"}
    assert names_in(collate=functools.partial(len, {"x": 0, "y": 1, "z": 2}, by={"x": 0, "y": 1, "z": 2})) == {
        "`collate.by` here", "`collate[0]` here"}
    assert names_in(collate=functools.partial(collate)) == {"`collate.ids` here"}
    assert names_in(loaders={"train": DataLoader(Named())}) == {"`loaders['train'].dataset.label_of` here"}
    assert names_in(both=[tokenizer, Named()]) == {"`both[0].ids` here", "`both[1].label_of` here"}


class Places:
    def __init__(self) -> None:
        self.words = list(WORDS)

    def number_of(self, word: str) -> int:
        return self.words.index(word)


class Sorted:
    def __init__(self) -> None:
        self.words = list(WORDS)


def test_a_list_of_an_object_counts_only_where_its_class_asks_for_places() -> None:
    found = Search(numbering_of)
    found.variables("here", {"places": Places(), "sorted": Sorted(), "own": list(WORDS)}, lists=False)
    assert set(found.found) == {"`places.words` here"}


def test_a_search_ends_at_its_limits() -> None:
    class Chain:
        def __init__(self, inside: Any) -> None:
            self.inside = inside

    chain: Any = {"a": 0, "b": 1, "c": 2}
    for _ in range(DEEPEST):
        chain = Chain(chain)
    assert names_in(chain=chain) == {"`chain.inside.inside.inside.inside` here"}
    assert names_in(chain=Chain(chain)) == set()
    tables = {f"t{i}": {"a": 0, "b": 1, f"c{i}": 2} for i in range(MOST_FOUND + 1)}
    assert len(names_in(**tables)) == MOST_FOUND
    others = {f"o{i}": [i] for i in range(MOST_VALUES)}
    assert names_in(**others, table={"a": 0, "b": 1, "c": 2}) == set()
    assert names_in(longer=[0] * MOST_ENTRIES + [Tokenizer()]) == set()


def test_a_table_is_named_once() -> None:
    tokenizer = Tokenizer()
    assert names_in(tokenizer=tokenizer, alias=tokenizer, ids=tokenizer.ids) == {"`tokenizer.ids` here"}


def test_objects_that_hold_each_other_end() -> None:
    one, other = Tokenizer(), Tokenizer()
    one.__dict__["other"], other.__dict__["other"] = other, one
    assert names_in(one=one) == {"`one.ids` here", "`one.other.ids` here"}


def test_what_other_packages_hold_is_not_looked_at() -> None:
    import argparse

    assert names_in(parsed=argparse.Namespace(words=WORDS)) == set()


def test_what_is_not_a_variable_of_the_program_is_left_alone() -> None:
    table = {"a": 0, "b": 1, "c": 2}

    def inside() -> Any:
        yield table

    assert names_in(__all__=list(WORDS)) == set()
    assert names_in(inside=inside) == {"`inside.table` here"}
    assert names_in(entered=contextlib.contextmanager(inside)) == set()


def test_a_function_may_hold_what_is_not_there_yet() -> None:
    def inside() -> Any:
        return later

    assert names_in(inside=inside) == set()
    later = 1


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self._own = {"a": 0, "b": 1, "c": 2}
        self.label_of = {"a": 0, "b": 1, "d": 2}


def test_underscored_attributes_of_a_module_are_left_to_pytorch() -> None:
    assert names_in(model=Model()) == {"`model.label_of` here"}


class Endless(Named):
    def __len__(self) -> int:
        raise NotImplementedError


class Odd:
    def __repr__(self) -> str:
        raise AssertionError("a method was called")


class Vocabulary(dict[str, int]):
    """Its own methods are the program's."""

    def __len__(self) -> int:
        raise AssertionError("a method was called")

    def items(self) -> Any:
        raise AssertionError("a method was called")


def test_a_dict_of_the_program_s_own_is_read_as_a_dict() -> None:
    assert same_numbers(Vocabulary({"cat": 0, "dog": 1, "owl": 2}), WORDS)
    assert names_in(few=Vocabulary({"known": Tokenizer()})) == {"`few['known'].ids` here"}  # type: ignore[dict-item]


class Lazy:
    """Fails as soon as it is asked for anything."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"it was asked for {name}")


def test_a_lazy_object_or_module_stays_lazy() -> None:
    assert names_in(lazy=Lazy(), table={"a": 0, "b": 1, "c": 2}) == {"`table` here"}
    sys.modules["lazy_for_numberings"] = Lazy()  # type: ignore[assignment]
    try:
        assert search(numbering_of, None)
    finally:
        del sys.modules["lazy_for_numberings"]


def test_endless_and_unprintable_objects_are_passed_over() -> None:
    assert names_in(data=Endless()) == {"`data.label_of` here", "`data.names` here"}
    assert names_in(odd={Odd(): Tokenizer(), "known": Tokenizer()}) == {"`odd['known'].ids` here"}


def test_files_of_packages_and_of_lockstep_are_not_the_program_s() -> None:
    assert is_of_the_program(__file__)
    for other in (torch.__file__, functools.__file__, pytest.__file__, lockstep.torch.__file__, "_ops.py", ""):
        assert not is_of_the_program(other)


def test_under_a_debugger_variables_of_functions_are_left_alone() -> None:
    def train() -> set[str]:
        vocabulary = {"a": 0, "b": 1, "c": 2}
        return set(search(numbering_of, sys._getframe())) | {str(len(vocabulary))}

    assert any("of train()" in name for name in train())
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        found = train()
    finally:
        sys.settrace(before)
    assert not any("of train()" in name for name in found)


def test_tables_are_written_once() -> None:
    written: list[Any] = []
    recorder: Any = SimpleNamespace(patches=Patches(), pen=SimpleNamespace(data=lambda *event: written.append(event)),
                                    quietly=lambda _seam, action: action())
    numberings.install(recorder)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    try:
        optimizer.step()
        n_written = len(written)
        optimizer.step()
    finally:
        recorder.patches.undo()
    optimizer.step()
    assert len(written) == n_written > 0
    of_global = [(part, tensors) for _, part, _, name, tensors in written if name == "`GLOBAL_TABLE` in numberings_test.py"]
    table = numbering_of(GLOBAL_TABLE)
    assert table is not None
    assert [part for part, _ in of_global] == [DataPart.VOCABULARY, DataPart.NUMBERING]
    assert torch.equal(of_global[0][1][0], table.words)
    assert torch.equal(of_global[1][1][0], table.numbers)


def test_variables_of_running_functions_and_of_modules_are_found() -> None:
    def train() -> set[str]:
        vocabulary = list(WORDS)
        found = set(search(numbering_of, sys._getframe()))
        return found | {str(vocabulary.index("dog"))}

    found = train()
    assert "`vocabulary` of train() in numberings_test.py" in found
    assert "`GLOBAL_TABLE` in numberings_test.py" in found


def loaded(folder: Path, file: str) -> types.ModuleType:
    """A module of the program with a table."""
    (folder / file).touch()
    module = types.ModuleType(file.removesuffix(".py"))
    module.__dict__.update(__file__=str(folder / file), table=dict(GLOBAL_TABLE))
    return module


def tables() -> set[str]:
    return set(search(numbering_of, None))


def test_modules_are_found_when_they_come_and_where_they_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look_at_modules()
    monkeypatch.setitem(sys.modules, "of_late", loaded(tmp_path, "of_late.py"))
    monkeypatch.setitem(sys.modules, "later_still", loaded(tmp_path, "later_still.py"))
    assert tables() >= {"`table` in of_late.py", "`table` in later_still.py"}
    monkeypatch.setitem(sys.modules, "of_late", loaded(tmp_path, "replaced.py"))
    monkeypatch.setitem(sys.modules, "__main__", loaded(tmp_path, "script.py"))
    now = tables()
    assert now >= {"`table` in replaced.py", "`table` in later_still.py", "`table` in script.py"}
    assert "`table` in of_late.py" not in now


def test_modules_are_found_after_the_last_one_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "the_last_one", loaded(tmp_path, "the_last_one.py"))
    look_at_modules()
    monkeypatch.delitem(sys.modules, "the_last_one")
    monkeypatch.setitem(sys.modules, "of_late", loaded(tmp_path, "of_late.py"))
    assert "`table` in of_late.py" in tables()
    assert "`table` in the_last_one.py" not in tables()


def test_an_installed_module_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look_at_modules()
    asked: list[str] = []
    monkeypatch.setattr("lockstep.torch.variables.is_installed", lambda file: asked.append(file) or True)  # type: ignore[func-returns-value]
    monkeypatch.setitem(sys.modules, "of_a_package", loaded(tmp_path, "of_a_package.py"))
    look_at_modules()
    assert asked == [str(tmp_path / "of_a_package.py")]
    look_at_modules()
    assert len(asked) == 1


def test_variables_of_a_function_are_not_kept_after_they_were_read() -> None:
    def asked() -> tuple[bool, bool, Any]:
        mine = torch.zeros(1)
        frame = sys._getframe()
        is_mine, is_other = is_variable(mine, frame), is_variable(torch.zeros(1), frame)
        gone = weakref.ref(mine)
        del mine
        return is_mine, is_other, gone

    is_mine, is_other, gone = asked()
    assert (is_mine, is_other, gone()) == (True, False, None)
    assert is_variable(WORDS, sys._getframe())


LISTED = """
import sys
import types
from lockstep.torch.numberings import numbering_of
from lockstep.torch.variables import search

def train():
    words = ["cat", "dog", "owl"]
    label_of = {"cat": 0, "dog": 1, "owl": 2}
    return set(search(numbering_of, sys._getframe())) | {USE}
"""


@pytest.mark.parametrize(("use", "counts"), [
    ("str([words.index(word) for word in words])", True),
    ("str(sorted(words))", False),
])
def test_a_list_counts_only_where_the_program_asks_for_places_in_one(tmp_path: Path, use: str, counts: bool) -> None:
    script = tmp_path / "script.py"
    script.write_text(LISTED.replace("USE", use))
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import script; print(*sorted(script.train()), sep='\\n')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "`label_of` of train() in script.py" in ran.stdout
    assert ("`words` of train() in script.py" in ran.stdout) is counts


AT_ONCE = """
import sys
import types
from lockstep.torch.numberings import numbering_of
from lockstep.torch.variables import search

words = ["cat", "dog", "owl"]
other = USE
print(*search(numbering_of, sys._getframe()), sep="\\n")
"""


@pytest.mark.parametrize(("use", "counts"), [("words.index('dog')", True), ("sorted(words)", False)])
def test_a_list_of_a_script_without_functions_counts_only_where_places_are_asked_for(
        tmp_path: Path, use: str, counts: bool) -> None:
    script = tmp_path / "script.py"
    script.write_text(AT_ONCE.replace("USE", use))
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert ("`words` in script.py" in ran.stdout) is counts


def test_a_function_that_asks_for_its_variables_keeps_them() -> None:
    def train() -> tuple[dict[str, Any], set[str]]:
        vocabulary = list(WORDS)
        mine = locals()
        return mine, set(search(numbering_of, sys._getframe())) | {*vocabulary}

    mine, found = train()
    assert mine["vocabulary"] == WORDS
    assert not any("of train()" in name for name in found)


def test_looking_keeps_nothing_alive() -> None:
    class Large:
        pass

    def train() -> Large | None:
        large = Large()
        weak = weakref.ref(large)
        search(numbering_of, sys._getframe())
        del large
        gc.collect()
        return weak()

    assert train() is None
