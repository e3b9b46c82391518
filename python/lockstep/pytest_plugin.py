"""pytest-lockstep: tests whose body runs on virtual ranks (docs/real_pytorch.md).

    @pytest.mark.lockstep(ranks=4, schedules=3)
    def test_sum():
        dist.init_process_group("gloo")
        x = torch.ones(1)
        dist.all_reduce(x)
        assert x.item() == dist.get_world_size()

PyTorch is imported in the process of pytest, once, by the first such test, and each test forks its ranks
from it: fixtures are made before the fork, and every rank has them.
"""
from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import os
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._code.code import ReprEntryNative, ReprExceptionInfo, ReprFileLocation, ReprTraceback

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from lockstep.virtual.function_job import Settings, RankResult

_MARK = "lockstep"
_OUTSIDE = ("capsys", "capsysbinary", "capfd", "capfdbinary", "capteesys")
_item = pytest.StashKey[pytest.Item]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lockstep", "virtual ranks")
    group.addoption("--lockstep-schedules", type=int, metavar="N",
                    help="runs each test of virtual ranks under N schedules")
    group.addoption("--lockstep-seed", type=int, metavar="S", help="the seed of their schedules")
    group.addoption("--lockstep-schedule", metavar="TOKEN", help="runs them under this schedule, as a failure printed it")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{_MARK}(ranks=2, schedules=1, backend='', laws=True, ...): runs the test on "
                                       "virtual ranks (lockstep: docs/real_pytorch.md)")


# -- which tests, and how
def _settings(config: pytest.Config, given: dict[str, Any]) -> Settings:
    from lockstep.virtual.function_job import Settings

    names = [field.name for field in dataclasses.fields(Settings)]
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            raise pytest.UsageError(f"lockstep: unknown argument '{name}'" +
                                    (f"; did you mean '{near[0]}'?" if near else f": there are {', '.join(names)}"))
    words = {"schedules": config.getoption("lockstep_schedules"), "seed": config.getoption("lockstep_seed"),
             "schedule": config.getoption("lockstep_schedule")}
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    try:
        return Settings(**{**given, **{name: value for name, value in words.items() if value is not None}})
    except ValueError as error:
        raise pytest.UsageError(f"lockstep: {error}") from None


def _settings_of(item: pytest.Item) -> Settings | None:
    marks = list(item.iter_markers(_MARK))
    if not marks:
        return None
    given: dict[str, Any] = {}
    for mark in reversed(marks):  # The nearest counts.
        if mark.args:
            raise pytest.UsageError(f"lockstep: {item.nodeid}: arguments have names: lockstep(ranks="
                                    f"{mark.args[0]!r})")
        given.update(mark.kwargs)
    return _settings(item.config, given)


def _require_possible(item: pytest.Item) -> None:
    from _pytest.unittest import TestCaseFunction

    if isinstance(item, TestCaseFunction):
        raise pytest.UsageError(f"lockstep: {item.nodeid}: methods of unittest.TestCase do not run on virtual ranks: "
                                "make it a function, or a method of a plain class")
    if not isinstance(item, pytest.Function):
        raise pytest.UsageError(f"lockstep: {item.nodeid}: only test functions run on virtual ranks")
    if inspect.iscoroutinefunction(item.obj):
        raise pytest.UsageError(f"lockstep: {item.nodeid}: async tests do not run on virtual ranks")
    blind = [name for name in _OUTSIDE if name in item.fixturenames]
    if blind:
        raise pytest.UsageError(f"lockstep: {item.nodeid}: {blind[0]} does not see what ranks print: return it, by the "
                                "fixture lockstep_run")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _settings_of(item) is not None:
            _require_possible(item)


# -- running
@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    item.config.stash[_item] = item
    try:
        return (yield)
    finally:
        del item.config.stash[_item]


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    settings = _settings_of(pyfuncitem)
    if settings is None:
        return (yield)
    function = pyfuncitem.obj
    examples = getattr(function, "hypothesis", None)
    if examples is not None:  # Each example is a job of its own; Hypothesis draws it once, for all ranks.
        inner = examples.inner_test
        examples.inner_test = _on_ranks(inner, pyfuncitem, settings)
        try:
            return (yield)
        finally:
            examples.inner_test = inner
    pyfuncitem.obj = _on_ranks(function, pyfuncitem, settings)
    try:
        return (yield)
    finally:
        pyfuncitem.obj = function


def _on_ranks(function: Callable[..., Any], item: pytest.Item, settings: Settings) -> Callable[..., None]:
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> None:
        _run(functools.partial(function, *arguments, **named), item, settings)
    return call


def _run(body: Callable[[], Any], item: pytest.Item | None, settings: Settings) -> list[Any]:
    from lockstep.virtual.connection import Refused
    from lockstep.virtual.function_job import AllSkipped, Ending, RanksFailed, run_function

    folder = getattr(item, "funcargs", {}).get("tmp_path")
    try:
        return run_function(body, settings, functools.partial(_describe, item), folder)
    except AllSkipped as skipped:
        if skipped.ending is Ending.SKIPPED:
            raise pytest.skip.Exception(str(skipped)) from None
        raise pytest.xfail.Exception(str(skipped)) from None
    except (Refused, ValueError, OSError) as error:  # Also where no descriptors or memory are left for that many ranks.
        raise pytest.fail.Exception(f"lockstep: {error}", pytrace=False) from None
    except RanksFailed as failed:
        if failed.again and item is not None:
            item.user_properties.append(("lockstep_schedule", failed.again))
            failed.args = (f"{failed}\nagain: pytest '{item.nodeid}' '--lockstep-schedule={failed.again}'",)
        raise


def _describe(item: pytest.Item | None, error: BaseException) -> RankResult:
    """In a rank: what the body raised, as pytest shows it."""
    from lockstep.virtual.function_job import Ending, RankResult

    for kind, ending in ((pytest.skip.Exception, Ending.SKIPPED), (pytest.xfail.Exception, Ending.XFAILED)):
        if isinstance(error, kind):
            return RankResult(ending, str(error))
    ours = os.path.dirname(__file__) + os.sep
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename.startswith(ours):
        trace = trace.tb_next
    information = pytest.ExceptionInfo.from_exception(error.with_traceback(trace))
    shown = item.repr_failure(information) if item is not None else information.getrepr(style="short")
    crash = getattr(shown, "reprcrash", None)
    text = str(shown)
    if crash is None:
        return RankResult(Ending.RAISED, text.strip().rpartition("\n")[2], text)
    message = str(crash.message).partition("\n")[0]
    return RankResult(Ending.RAISED, message, text, str(crash.path), int(crash.lineno))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    if call.excinfo is None or report.outcome != "failed":
        return report
    from lockstep.virtual.function_job import RanksFailed

    failed = call.excinfo.value
    if isinstance(failed, RanksFailed):
        text = "\n".join([str(failed), *getattr(failed, "__notes__", ())])
        file, line = failed.place if failed.place[0] else (str(item.path), (item.location[1] or 0) + 1)
        report.longrepr = ReprExceptionInfo(
            reprtraceback=ReprTraceback([ReprEntryNative([text + "\n"])], None, style="native"),
            reprcrash=ReprFileLocation(file, line, failed.headline))
    return report


# -- fixtures
class LockstepRank:
    """Which rank the running body is."""

    @property
    def rank(self) -> int:
        return self._number("RANK")

    @property
    def world(self) -> int:
        return self._number("WORLD_SIZE")

    def _number(self, name: str) -> int:
        from lockstep.virtual import rank

        if rank.current() is None:
            raise RuntimeError("lockstep_rank: this process is not a virtual rank: mark the test with pytest.mark.lockstep")
        return int(os.environ[name])


@pytest.fixture(scope="session")
def lockstep_rank() -> LockstepRank:
    """Which rank runs the body of a marked test: `rank` of `world`."""
    return LockstepRank()


@pytest.fixture(scope="session")
def lockstep_run(request: pytest.FixtureRequest) -> Callable[..., list[Any]]:
    """Calls a function on virtual ranks: lockstep_run(function, *arguments, ranks=2, ...) with the marker's words.

    Returns: what it returned, by rank. Raises RanksFailed (lockstep.virtual.function_job).
    """
    def run(function: Callable[..., Any], *arguments: Any, **given: Any) -> list[Any]:
        item = request.config.stash.get(_item, None)
        return _run(functools.partial(function, *arguments), item, _settings(request.config, given))
    return run
