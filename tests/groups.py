"""Groups of tests: those that share a worker, those that are long, and those that are quick.

`make test` leaves the long ones to `make test-long`; `make test-quick` runs the quick ones alone. `make check` runs
both halves without workers, in a process for each of several folders (`tests/check.py`).
"""

from __future__ import annotations

import re
from pathlib import Path

from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).resolve().parents[1]

ON_THE_CLUSTER = {
    f"tests/e2e/test_{name}.py"
    for name in (
        *("auction", "elastic", "history", "lifecycle", "preemption"),
        *("screening", "sharing", "shell", "strikes", "sweep"),
    )
}
OF_THE_PAGES = {
    f"tests/e2e/test_{name}.py"
    for name in (
        *("admin_pages", "choices", "clicks", "page_actions", "pages"),
        *("predictions_page", "queue_page", "sweep_pages", "vc_pages"),
    )
}
_LONG = {
    *OF_THE_PAGES,
    *("tests/e2e/test_demo.py", "tests/e2e/test_torch.py", "tests/e2e/test_two_speeds.py"),
    "tests/gpu/test_rehearsal.py",
    *("tests/api/test_openapi.py", "tests/db/links/test_links_ssh.py"),
    *(
        "tests/slurm/test_on_muster.py",
        "tests/slurm/test_on_slurm.py",
        "tests/sim/test_published.py",
        "tests/unit/deploy/test_compose_starts.py",
        "tests/unit/test_examples.py",
    ),
}
_PURE = ("tests/unit/", "tests/contract/")
# Of the folders above, the files whose tests start processes or services.
_STARTS_PROCESSES = {
    f"tests/unit/{name}.py"
    for name in (
        *("bench/test_processor", "client/test_client_wheel", "common/test_crowds", "deploy/test_compose"),
        "deploy/test_compose_starts",
        *("local/test_services", "local/test_supervisor", "test_mutants_runner", "test_reruns"),
    )
}
# Each test of these starts an agent of its own, and they take longest of all files of `make test`.
_TEST_BY_TEST = {
    *("tests/agent/loop/test_agent.py", "tests/agent/loop/test_attach.py", "tests/agent/loop/test_registration.py"),
    "tests/agent/gpu/test_gpu_checks.py",
}
# Where a parameter alone tells that a test takes an engine.
_OF_ENGINES = "tests/agent/"
# What takes longest in one piece, the longest first: begun last, two of three workers would wait for it. Each worker
# gets two pieces to begin with, so the fourth, which waits behind the longest, is a short one.
_FIRST = (
    *("the faults", "the cluster", "the pages", "the histories", "tests/api/test_openapi.py"),
    *("tests/e2e/", "tests/db/links/test_links_ssh.py", "tests/agent/"),
)


class FilesAndOneCluster(LoadFileScheduling):
    """Whole files for each worker of a parallel run, and one worker for all that share a cluster or another server.

    Tests of a container engine are apart from those of another: each takes about as long as a large file.
    """

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    """The key by which a test shares a worker."""
    file = nodeid.partition("::")[0]
    engine = _engine(nodeid)
    if engine:
        return f"{file} {engine}"
    if file in _TEST_BY_TEST:
        return nodeid
    if file in OF_THE_PAGES:
        return "the pages"
    if file.startswith("tests/protocol/"):
        return "the histories"
    if file.startswith("tests/faults/"):
        return "the faults"
    return "the cluster" if file in ON_THE_CLUSTER else file


def place_of(nodeid: str) -> int:
    """The place of a test in the order; equal ones keep the order they have."""
    scope = scope_of(nodeid)
    return next((at for at, word in enumerate(_FIRST) if scope.startswith(word)), len(_FIRST))


def is_long(nodeid: str) -> bool:
    """True if the test takes a cluster, an engine, an SSH server, PyTorch, a browser or a published trace for long.

    Requests to the API are made up in the long half too.
    """
    file = nodeid.partition("::")[0]
    return scope_of(nodeid) in {"the faults", "the cluster"} or file in _LONG or bool(_engine(nodeid))


def is_quick(nodeid: str) -> bool:
    """True if the test is pure: it starts no process and no service."""
    file = nodeid.partition("::")[0]
    return file.startswith(_PURE) and file not in _STARTS_PROCESSES and not is_long(nodeid)


def may_have(path: Path, *, long: bool) -> bool:
    """True if a file may have tests that are long, or that are not: other files need not be read."""
    file = path.relative_to(ROOT).as_posix()
    if not path.name.startswith("test_") or file.startswith(_OF_ENGINES):
        return True
    return is_long(file) == long


def _engine(nodeid: str) -> str:
    found = re.match(rf"{_OF_ENGINES}.*\[(docker|podman)\b", nodeid)
    return found[1] if found else ""
