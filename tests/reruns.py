"""A pytest plugin (`-p tests.reruns`): which tests may run a second time when they fail, and how many in one run.

Long tests may, since they depend on other processes and on the machine. Tests of faults and of the protocol, and
properties, may not: a failure that comes only sometimes is exactly what they look for. Another test needs the mark
`flaky(reason="…")`. pytest-rerunfailures runs a test again; here are the rules around it.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

MAX_RERUNS = 2
NEVER = ("tests/faults/", "tests/protocol/")


def may_run_again(nodeid: str, *, is_long: bool, is_property: bool, flaky: pytest.Mark | None) -> bool:
    """True if a test that fails may run a second time.

    Raises:
        pytest.UsageError: the test has a mark `flaky` that is not allowed, or without a reason.
    """
    never = is_property or nodeid.startswith(NEVER)
    if flaky is None:
        return is_long and not never
    if never:
        raise pytest.UsageError(
            f"{nodeid}: remove the mark flaky. Tests of faults and protocol, and properties, run once."
        )
    if flaky.args or flaky.kwargs.keys() != {"reason"} or not str(flaky.kwargs["reason"]).strip():
        raise pytest.UsageError(f'{nodeid}: write the mark as flaky(reason="…"), with nothing else.')
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let pytest-rerunfailures run the long tests again, once."""
    for item in items:
        flaky = item.get_closest_marker("flaky")
        is_property = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        is_long = item.get_closest_marker("long") is not None
        if may_run_again(item.nodeid, is_long=is_long, is_property=is_property, flaky=flaky) and flaky is None:
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which too many tests ran again."""
    if len(_rerun(session.config)) > MAX_RERUNS and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """List the tests that ran again, after everything else."""
    yield
    reports = _rerun(terminalreporter.config)
    if not reports:
        return
    terminalreporter.section("ran again")
    for report in reports:
        terminalreporter.line(f"{report.nodeid} ({report.when})")
    if len(reports) > MAX_RERUNS:
        terminalreporter.line(f"More than {MAX_RERUNS} tests ran again: the run has failed.", red=True)


def _rerun(config: pytest.Config) -> list[pytest.TestReport]:
    """The reports of tests that failed and ran again; of a parallel run only the main process has them."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return reporter.stats.get("rerun", []) if reporter else []
