"""Tests that may run again when they fail, and the report and status of a run with reruns."""

from __future__ import annotations

import pytest

from tests.reruns import may_run_again

pytest_plugins = ["pytester"]

REASON = pytest.mark.flaky(reason="the browser of this machine loses its first tab").mark
DEMO = "tests/e2e/test_demo.py::test_one"


@pytest.mark.parametrize(
    ("nodeid", "is_long", "is_property", "flaky", "may"),
    [
        (DEMO, True, False, None, True),
        ("tests/unit/test_a.py::test_one", False, False, None, False),
        ("tests/unit/test_a.py::test_one", False, False, REASON, True),
        (DEMO, True, True, None, False),
        ("tests/faults/test_web.py::test_one", True, False, None, False),
        ("tests/protocol/test_a.py::test_one", True, False, None, False),
    ],
    ids=["long", "short", "flaky", "property", "fault", "protocol"],
)
def test_long_tests_and_marked_ones_may_run_again(
    nodeid: str, is_long: bool, is_property: bool, flaky: pytest.Mark | None, may: bool
) -> None:
    assert may_run_again(nodeid, is_long=is_long, is_property=is_property, flaky=flaky) is may


@pytest.mark.parametrize(
    ("nodeid", "mark"),
    [
        (DEMO, pytest.mark.flaky.mark),
        (DEMO, pytest.mark.flaky(reason=" ").mark),
        (DEMO, pytest.mark.flaky(reruns=3, reason="slow").mark),
        ("tests/faults/test_web.py::test_one", REASON),
    ],
    ids=["no reason", "empty reason", "several reruns", "never"],
)
def test_a_mark_without_a_reason_or_where_none_is_allowed_is_refused(nodeid: str, mark: pytest.Mark) -> None:
    with pytest.raises(pytest.UsageError, match="flaky"):
        may_run_again(nodeid, is_long=True, is_property=False, flaky=mark)


@pytest.mark.parametrize(
    ("count", "code", "parallel"),
    [(2, pytest.ExitCode.OK, False), (3, pytest.ExitCode.TESTS_FAILED, True)],
    ids=["two in one process", "three in workers"],
)
def test_reruns_are_listed_last_and_more_than_two_fail_the_run(
    pytester: pytest.Pytester, count: int, code: int, parallel: bool
) -> None:
    pytester.makepyfile(f"""
        import pytest
        TRIED = set()

        @pytest.mark.long
        @pytest.mark.parametrize("number", range({count}))
        def test_the_second_try_passes(number):
            assert number in TRIED or TRIED.add(number)
        """)
    pytester.makeini("[pytest]\nmarkers = long: takes long")
    run = pytester.runpytest_subprocess if parallel else pytester.runpytest_inprocess
    result = run("-p", "tests.reruns", "-p", "no:django", *(["-n", "1"] if parallel else []))
    assert result.ret == code
    result.assert_outcomes(passed=count)
    heading = next(number for number, line in enumerate(result.outlines) if "= ran again =" in line)
    listed = [line for line in result.outlines[heading:] if line.endswith("(call)")]
    assert len(listed) == count
    assert not any("short test summary" in line for line in result.outlines[heading:])


def test_a_short_test_that_fails_runs_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        TRIED = []

        def test_the_second_try_would_pass():
            assert TRIED or TRIED.append(1)
        """)
    pytester.runpytest_inprocess("-p", "tests.reruns", "-p", "no:django").assert_outcomes(failed=1)
