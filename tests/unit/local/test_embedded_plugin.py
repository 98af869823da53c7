"""Decisions of the plugin that starts the tests' services."""

from __future__ import annotations

import pytest

from tests.embedded import ROOT, needs_services, redis_url_of

CASES = {
    "a socket": ("unix:///tmp/v.sock", "gw0", "unix:///tmp/v.sock?db=1"),
    "a socket with a number": ("unix:///tmp/v.sock?db=0", "gw3", "unix:///tmp/v.sock?db=4"),
    "a port": ("redis://localhost:6379/0", "gw1", "redis://localhost:6379/2"),
    "a port without a number": ("redis://localhost:6379", "gw0", "redis://localhost:6379/1"),
    "nothing": ("", "gw0", ""),
}


@pytest.mark.parametrize(("url", "worker", "expected"), CASES.values(), ids=CASES.keys())
def test_each_worker_gets_its_own_redis_database(url: str, worker: str, expected: str) -> None:
    assert redis_url_of(url, worker) == expected


def test_a_run_of_pure_tests_only_starts_no_database() -> None:
    assert not needs_services(["tests/unit", "tests/agent/test_x.py::test_y"], start=ROOT)


@pytest.mark.parametrize("paths", [[], ["tests"], ["tests/unit", "tests/db"], ["tests/api/test_jobs.py::test_x"]])
def test_every_other_run_starts_one(paths: list[str]) -> None:
    assert needs_services(paths, start=ROOT)
