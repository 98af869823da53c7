"""Long tests, tests that share a worker, and the files that each half of the tests reads."""

from __future__ import annotations

import pytest

from tests.groups import ROOT, is_long, is_quick, may_have, scope_of

LONG = [
    "tests/faults/test_web.py::test_one",
    "tests/e2e/test_shell.py::test_one[a]",
    "tests/e2e/test_pages.py::test_one",
    "tests/e2e/test_torch.py::test_one",
    "tests/agent/runtime/test_runtime_conformance.py::test_one[podman-a]",
]
SHORT = [
    "tests/agent/runtime/test_runtime_conformance.py::test_one[process-a]",
    "tests/unit/bench/test_plan.py::test_one[docker]",
]


@pytest.mark.parametrize("nodeid", LONG + SHORT)
def test_what_a_half_runs_lies_in_a_file_that_it_reads(nodeid: str) -> None:
    assert is_long(nodeid) == (nodeid in LONG)
    assert may_have(ROOT / nodeid.partition("::")[0], long=is_long(nodeid))


@pytest.mark.parametrize(
    ("nodeid", "quick"),
    [
        ("tests/unit/scheduler/model/test_invariants.py::test_one", True),
        ("tests/contract/test_messages.py::test_one", True),
        ("tests/unit/local/test_supervisor.py::test_one", False),
        ("tests/unit/test_examples.py::test_one", False),
        ("tests/db/jobs/test_kept.py::test_one", False),
    ],
    ids=["pure", "contract", "starts processes", "long", "needs a database"],
)
def test_pure_tests_are_quick(nodeid: str, quick: bool) -> None:
    assert is_quick(nodeid) is quick


@pytest.mark.parametrize("name", ["tests", "tests/e2e", "tests/conftest.py"])
def test_folders_and_what_is_no_test_are_read_by_both(name: str) -> None:
    assert may_have(ROOT / name, long=True)
    assert may_have(ROOT / name, long=False)


@pytest.mark.parametrize(("path", "long"), [("tests/db/jobs/test_kept.py", True), ("tests/faults/test_web.py", False)])
def test_a_file_of_the_other_half_is_left_unread(path: str, long: bool) -> None:
    assert not may_have(ROOT / path, long=long)


def test_engines_are_apart_and_faults_the_cluster_and_histories_together() -> None:
    conformance = "tests/agent/runtime/test_runtime_conformance.py"
    assert len({scope_of(f"{conformance}::test_one[{name}]") for name in ("docker", "podman", "process")}) == 3
    assert scope_of("tests/faults/test_web.py::test_one") == scope_of("tests/faults/test_disk.py::test_one")
    assert scope_of("tests/e2e/test_sweep.py::test_one") == scope_of("tests/e2e/test_shell.py::test_one")
    assert scope_of("tests/protocol/test_protocol_machine.py::test_one") == scope_of(
        "tests/protocol/test_a.py::test_one"
    )


def test_each_test_that_starts_an_agent_is_apart() -> None:
    file = "tests/agent/gpu/test_gpu_checks.py"
    assert scope_of(f"{file}::test_one") != scope_of(f"{file}::test_two")
