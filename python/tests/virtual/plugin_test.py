"""pytest-lockstep: marked tests run on virtual ranks, and pytest shows what came of them as it shows everything else."""
from __future__ import annotations

import importlib
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import lockstep
import pytest
from lockstep.virtual import function_job  # noqa: F401
from virtual_job import prepare

HEAD = '''
import os
import pytest
import torch
import torch.distributed as dist
'''
PLUGIN = ("-p", "lockstep.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:faulthandler")


@pytest.fixture
def run_tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Runs tests with the plugin, in this process, which has imported PyTorch."""
    monkeypatch.setenv("PYTHONPATH", str(Path(lockstep.__file__).parents[1]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(text: str, *given: str, new_process: bool = False) -> pytest.RunResult:
        prepare()  # Otherwise each of these runs of pytest would import again what the one before it forgot.
        pytester.makepyfile(test_job=HEAD + text)
        start = pytester.runpytest_subprocess if new_process else pytester.runpytest_inprocess
        return start(*PLUGIN, *given)
    return run


def said(result: pytest.RunResult) -> str:
    return result.stdout.str()


def test_ranks_run_the_body_with_its_fixtures(run_tests) -> None:  # type: ignore[no-untyped-def]
    result = run_tests('''
@pytest.fixture
def factor():
    return os.getpid()

@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.lockstep(ranks=4, backend="gloo")
def test_sum(n, factor, tmp_path, lockstep_rank):
    assert factor == os.getppid() and (lockstep_rank.rank, lockstep_rank.world) == (dist.get_rank(), 4)
    x = torch.full((2,), float(n))
    dist.all_reduce(x)
    print("sum", x.tolist())
    (tmp_path / str(dist.get_rank())).touch()
    dist.barrier()
    assert len(list(tmp_path.iterdir())) == 4

@pytest.mark.lockstep(ranks=3)
class TestMethods:
    def test_joins_by_itself(self):
        dist.init_process_group("nccl")
        assert dist.get_world_size() == 3 and dist.get_backend() == "nccl"

    @pytest.mark.lockstep(ranks=2)
    def test_nearest_counts(self):
        assert os.environ["WORLD_SIZE"] == "2"

def test_outside(lockstep_rank):
    with pytest.raises(RuntimeError, match="not a virtual rank"):
        lockstep_rank.rank
''', "-rP")
    result.assert_outcomes(passed=5)
    for rank in range(4):
        assert f"[rank {rank}] sum [4.0, 4.0]" in said(result)
        assert f"[rank {rank}] sum [8.0, 8.0]" in said(result)


def test_an_assertion_is_shown_with_its_ranks_and_values(run_tests) -> None:  # type: ignore[no-untyped-def]
    result = run_tests('''
@pytest.mark.lockstep(ranks=3, backend="gloo")
def test_sum():
    x = torch.ones(1)
    dist.all_reduce(x)
    if dist.get_rank() > 0:
        total = x.item()
        assert total == 4
    dist.barrier()
''')
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["rank * of 3: *assert 3.0 == 4", "*- ranks 1, 2 -*", ">*assert total == 4",
                                 "E*assert 3.0 == 4*", "*rank 0: threw: barrier*", "FAILED test_job.py::test_sum - rank*"])
    assert "law:" not in said(result), "the test itself shows the crash"


def test_a_hang_is_named_with_its_missing_rank_and_line(run_tests) -> None:  # type: ignore[no-untyped-def]
    result = run_tests('''
@pytest.mark.lockstep(ranks=3, backend="gloo")
def test_hangs():
    if dist.get_rank() != 1:
        dist.barrier()
''')
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["DEADLOCK: no rank can continue*", "*missing: rank 1*",
                                 "*test_job.py:9 in test_hangs: dist.barrier()"])


LAW = '''
@pytest.mark.lockstep(ranks=2, backend="gloo", laws=%s)
def test_trains():
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * (1 + %s * dist.get_rank()))
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(4, 4)).sum().backward()
        optimizer.step()
'''


@pytest.mark.parametrize(("laws", "factor", "passes"), [(True, 1, False), (False, 1, True), (True, 0, True)])
def test_laws_judge_what_the_body_did(laws: bool, factor: int, passes: bool,
                                      run_tests) -> None:  # type: ignore[no-untyped-def]
    result = run_tests(LAW % (laws, factor))
    result.assert_outcomes(passed=int(passes), failed=int(not passes))
    assert ("law: step 0" in said(result) and "lr-per-rank" in said(result)) is not passes


# Rank 1 looks for a file that rank 0 writes: what orders the two is left to the test.
RACE = '''
@pytest.mark.lockstep(ranks=2, schedules=40, backend="gloo")
def test_race(tmp_path):
    store = dist.distributed_c10d._get_default_store()
    for _ in range(5 if dist.get_rank() == 0 else 3):
        store.check(["nothing"])
    if dist.get_rank() == 1:
        assert not (tmp_path / "model").exists()
    %s
    if dist.get_rank() == 0:
        (tmp_path / "model").write_text("weights")
    dist.barrier()
'''


def test_a_race_is_found_made_smaller_and_replayed_in_a_new_process(
        run_tests, pytester: pytest.Pytester) -> None:  # type: ignore[no-untyped-def]
    result = run_tests(RACE % "pass", "--junitxml=found.xml")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["rank 1 of 2: *assert not True*", "under the schedule @*made smaller from * in * tries",
                                 "again: pytest 'test_job.py::test_race' '--lockstep-schedule=@*'"])
    token = said(result).partition("'--lockstep-schedule=")[2].partition("'")[0]
    assert len(token) > 1
    case = ElementTree.parse(pytester.path / "found.xml").find(".//testcase")
    assert case is not None
    failure, schedule = case.find("failure"), case.find("properties/property")
    assert failure is not None and schedule is not None
    assert failure.get("message", "").startswith("rank 1 of 2: AssertionError: assert not True")
    assert (schedule.get("name"), schedule.get("value")) == ("lockstep_schedule", token)
    again = run_tests(RACE % "pass", f"--lockstep-schedule={token}", new_process=True)
    again.assert_outcomes(failed=1)
    assert "rank 1 of 2: AssertionError: assert not True" in said(again)
    run_tests(RACE % "dist.barrier()", "--lockstep-schedules", "6").assert_outcomes(passed=1)


def test_a_test_that_every_rank_skips_is_skipped(run_tests) -> None:  # type: ignore[no-untyped-def]
    result = run_tests('''
@pytest.mark.lockstep(ranks=2)
def test_all():
    pytest.skip("no GPU")

@pytest.mark.lockstep(ranks=2)
def test_expected():
    pytest.xfail("known")

@pytest.mark.lockstep(ranks=2)
def test_one():
    if os.environ["RANK"] == "1":
        pytest.skip("no GPU")

@pytest.mark.xfail(reason="it fails")
@pytest.mark.lockstep(ranks=2)
def test_marked():
    assert False
''', "-rs")
    result.assert_outcomes(skipped=1, xfailed=2, failed=1)
    result.stdout.fnmatch_lines(["*rank 1 of 2 left the test (no GPU), others did not*"])


def test_hypothesis_draws_once_for_all_ranks(run_tests) -> None:  # type: ignore[no-untyped-def]
    result = run_tests('''
from hypothesis import given, settings, strategies as st

@settings(max_examples=6, deadline=None, database=None)
@given(n=st.integers(0, 1000))
@pytest.mark.lockstep(ranks=2, backend="gloo", laws=False)
def test_equal(n):
    rows = [None] * 2
    dist.all_gather_object(rows, n)
    assert rows == [n, n]

@settings(max_examples=30, deadline=None, database=None, derandomize=True)
@given(n=st.integers(0, 1000))
@pytest.mark.lockstep(ranks=2, backend="gloo", laws=False)
def test_small(n):
    x = torch.tensor([n])
    dist.all_reduce(x)
    assert x.item() < 10
''', "-p", "_hypothesis_pytestplugin")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["rank * of 2: *assert 10 < 10*", "Failing test case: test_small(", "*n=5*"])


def test_workers_of_xdist_have_ranks_of_their_own(run_tests) -> None:  # type: ignore[no-untyped-def]
    result = run_tests('''
@pytest.mark.parametrize("n", range(4))
@pytest.mark.lockstep(ranks=2, backend="gloo")
def test_sum(n):
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x.item() == (2 if n else 3), os.environ["PYTEST_XDIST_WORKER"]
''', "-p", "xdist", "-n", "2", new_process=True)
    result.assert_outcomes(passed=3, failed=1)
    assert "rank 0 of 2" in said(result) or "rank 1 of 2" in said(result)


def test_a_function_gives_its_values_by_rank(run_tests) -> None:  # type: ignore[no-untyped-def]
    result = run_tests('''
from lockstep.virtual.function_job import RanksFailed

def body(factor):
    print("here")
    return dist.get_rank() * factor, torch.ones(1) * dist.get_rank()

def test_values(lockstep_run):
    values = lockstep_run(body, 10, ranks=3, backend="gloo")
    assert [number for number, _ in values] == [0, 10, 20]
    assert [x.item() for _, x in values] == [0, 1, 2]

def test_failure_can_be_expected(lockstep_run):
    with pytest.raises(RanksFailed, match="rank 1 of 2: ZeroDivisionError") as failed:
        lockstep_run(lambda: 1 // (1 - dist.get_rank()), backend="gloo")
    assert failed.value.outcome.found["outcome"] == "failed"

def test_value_cannot_be_pickled(lockstep_run):
    with pytest.raises(RanksFailed, match="cannot be handed back"):
        lockstep_run(lambda: (lambda: 1))
''')
    result.assert_outcomes(passed=3)


@pytest.mark.parametrize(("text", "says"), [
    ("@pytest.mark.lockstep(rank=2)\ndef test_a():\n    pass\n", "unknown argument 'rank'; did you mean 'ranks'?"),
    ("@pytest.mark.lockstep(4)\ndef test_a():\n    pass\n", "arguments have names: lockstep(ranks=4)"),
    ("@pytest.mark.lockstep(ranks=0)\ndef test_a():\n    pass\n", "ranks=0: must be a whole number from 1 to 1048576"),
    ("@pytest.mark.lockstep\ndef test_a(capsys):\n    pass\n", "capsys does not see what ranks print"),
    ("@pytest.mark.lockstep\nasync def test_a():\n    pass\n", "async tests do not run on virtual ranks"),
    ("import unittest\nclass TestA(unittest.TestCase):\n    @pytest.mark.lockstep\n    def test_a(self):\n        pass\n",
     "methods of unittest.TestCase do not run"),
])
def test_what_cannot_run_is_refused_before_anything_runs(text: str, says: str,
                                                         run_tests) -> None:  # type: ignore[no-untyped-def]
    result = run_tests(text)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert says in said(result) + result.stderr.str()


@pytest.mark.parametrize(("argument", "says"), [
    ("ranks='2'", "ranks='2': must be a whole number from 1 to 1048576"),
    ("ranks=None", "ranks=None: must be a whole number from 1 to 1048576"),
    ("ranks=True", "ranks=True: must be a whole number from 1 to 1048576"),
    ("ranks=10**20", f"ranks={10**20}: must be a whole number from 1 to 1048576"),
    ("seed=10**30", f"seed={10**30}: must be a whole number from 0 to "),
    ("arena_mb=10**18", f"arena_mb={10**18}: must be a whole number from 1 to "),
    ("wall_limit=float('inf')", "wall_limit=inf: must be a number of seconds from 0 to "),
    ("wall_limit='1'", "wall_limit='1': must be a number of seconds from 0 to "),
    ("laws='x'", "laws='x': must be True or False"),
    ("backend=5", "backend=5: must be a text"),
    ("allow='x'", "allow='x': must be a list of texts"),
    ("allow=['x']", "allow=('x',): unknown law 'x'"),
    ("faults=['x']", "faults=('x',): fault 'x': unknown kind 'x'"),
    ("buffers='x'", "buffers='x': must be one of broadcast0, mean, synced, local"),
    ("order='x'", "order='x': unknown order of reductions 'x'"),
    ("pairing='x'", "pairing='x': pairing is strict, gloo_like or nccl_like"),
    ("schedule='x'", "schedule='x': unknown strategy 'x'"),
    ("clock='x'", "clock='x': there are real, virtual"),
])
def test_a_value_of_the_marker_that_makes_no_sense_is_named(argument: str, says: str, run_tests) -> None:  # type: ignore[no-untyped-def]
    result = run_tests(f"@pytest.mark.lockstep({argument})\ndef test_a():\n    pass\n")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"lockstep: {says}" in said(result) + result.stderr.str()


def test_more_ranks_than_there_are_descriptors_for_are_a_sentence(run_tests) -> None:  # type: ignore[no-untyped-def]
    result = run_tests("@pytest.mark.lockstep(ranks=1 << 20)\ndef test_a():\n    pass\n")
    result.assert_outcomes(failed=1)
    assert "lockstep: [Errno 24] Too many open files: 1048576 ranks need " in said(result)
    assert "Traceback" not in said(result)


def test_the_package_names_the_plugin() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module = importlib.import_module(project["entry-points"]["pytest11"]["lockstep"])
    assert hasattr(module, "pytest_pyfunc_call")
