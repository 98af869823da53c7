"""Limits of jobs without a container: control groups that a unit has delegated to the agent."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodeagent.protocol.messages import EndReason
from nodeagent.runtime.port import ExitStatus, Listener, Phase, ShellRequest
from nodeagent.runtime.process import cgroup
from nodeagent.runtime.process import runtime as process_runtime
from nodeagent.runtime.process.runtime import ProcessRuntime
from tests.agent.conftest import KeptForker, RuntimeUnderTest, is_alive, stop_everything
from tests.waiting import eventually

OWN = "0::/system.slice/muster-agent.service/agent\n"
MOUNT = Path("/sys/fs/cgroup")


def machine(tmp_path: Path, *, own: str = OWN, controllers: str = "cpu memory pids") -> tuple[str, str]:
    """A file with the agent's membership, and a mount with the unit's group."""
    unit = tmp_path / "mount" / "system.slice" / "muster-agent.service"
    unit.mkdir(parents=True)
    (unit / "cgroup.controllers").write_text(controllers)
    (tmp_path / "membership").write_text(own)
    return str(tmp_path / "membership"), str(tmp_path / "mount")


def test_the_group_above_the_agents_own_is_for_its_jobs(tmp_path: Path) -> None:
    root = cgroup.delegated_root(*machine(tmp_path))
    assert root == str(tmp_path / "mount/system.slice/muster-agent.service")
    assert (Path(root) / "cgroup.subtree_control").read_text() == "+memory +pids"


@pytest.mark.parametrize(
    "said",
    [
        {"own": "0::/system.slice/muster-agent.service\n"},
        {"own": "4:memory:/unit/agent\n3:cpu:/unit/agent\n"},
        {"own": "0::/elsewhere/agent\n"},
        {"controllers": "cpu pids"},
    ],
    ids=["a unit without a subgroup", "cgroup v1", "a group that is not mounted", "no memory controller"],
)
def test_without_delegation_there_is_no_group_for_jobs(said: dict[str, str], tmp_path: Path) -> None:
    assert cgroup.delegated_root(*machine(tmp_path, **said)) == ""


def under_root(root: Path, state: Path, forkers: Callable[[str], KeptForker], *, pids: int = 64) -> RuntimeUnderTest:
    """A process runtime with this group for its jobs."""
    forker = forkers(process_runtime.JOBS)

    def make(heard: Listener) -> ProcessRuntime:
        return ProcessRuntime(str(state), heard, forker=forker, pids=pids, cgroup_root=str(root))

    return RuntimeUnderTest(make, state, "", "")


@pytest.fixture
def folders(tmp_path: Path, forkers: Callable[[str], KeptForker]) -> Iterator[RuntimeUnderTest]:
    """A runtime whose control groups are plain folders: what the agent writes can be read there."""
    root = tmp_path / "unit"
    root.mkdir()
    made = under_root(root, tmp_path / "state", forkers)
    yield made
    stop_everything(made.runtime)


def test_a_job_starts_inside_a_group_with_its_limits(folders: RuntimeUnderTest, tmp_path: Path) -> None:
    number = folders.start("true", memory_mib=64)
    folders.exit(number)
    files = {path.name: path.read_text() for path in (tmp_path / "unit" / f"job-{number}").iterdir()}
    assert files == {"memory.max": str(64 << 20), "pids.max": "64", "cgroup.procs": "0"}


def test_a_group_that_cannot_be_made_fails_the_launch(folders: RuntimeUnderTest, tmp_path: Path) -> None:
    (tmp_path / "unit").rmdir()
    (tmp_path / "unit").write_text("")
    status = folders.exit(folders.start("true"))
    assert (status.reason, status.detail) == (EndReason.LAUNCH_FAILED, "cannot make its control group: Not a directory")


def test_a_job_is_out_of_memory_where_the_kernel_counted_a_kill(folders: RuntimeUnderTest, tmp_path: Path) -> None:
    number = folders.start("echo ready; until [ -e go ]; do sleep 0.05; done; kill -9 $$", memory_mib=64)
    folders.printed(number, b"ready")
    (tmp_path / "unit" / f"job-{number}" / "memory.events").write_text("oom 1\noom_kill 1\n")
    (folders.folder(number) / "work" / "go").touch()
    status = folders.exit(number)
    assert (status.reason, status.signal) == (EndReason.OUT_OF_MEMORY, 9)
    assert status.detail == "out of memory: the limit is 64 MiB"


def test_limits_are_enforced_only_for_jobs_of_other_users(
    folders: RuntimeUnderTest, under_plain: ProcessRuntime
) -> None:
    assert folders.runtime.labels()["limits"] == ("enforced" if os.geteuid() == 0 else "advisory")
    assert under_plain.labels()["limits"] == "advisory"


@pytest.fixture
def under_plain(tmp_path: Path, forkers: Callable[[str], KeptForker]) -> Iterator[ProcessRuntime]:
    """A process runtime to which no control group is delegated."""
    runtime = ProcessRuntime(str(tmp_path / "plain"), lambda _id, _kind: None, forker=forkers(process_runtime.JOBS))
    yield runtime
    runtime.close()


def test_no_setuid_program_gives_a_job_other_rights(folders: RuntimeUnderTest) -> None:
    status, output = folders.run("grep NoNewPrivs /proc/self/status")
    assert (status.reason, output) == (EndReason.COMPLETED, b"NoNewPrivs:\t1\n")


def test_a_shell_beside_a_job_is_under_its_limits(folders: RuntimeUnderTest, tmp_path: Path) -> None:
    number = folders.start("echo ready; sleep 60")
    folders.printed(number, b"ready")
    entered = tmp_path / "unit" / f"job-{number}" / "cgroup.procs"
    entered.unlink()
    shell = folders.runtime.shell(number, ShellRequest(1, ("grep", "NoNewPrivs", "/proc/self/status"), False, ""))
    eventually(shell.ending, "the end of the shell")
    assert os.read(shell.output, 4096) == b"NoNewPrivs:\t1\n"
    assert entered.read_text() == "0"
    shell.close()


@pytest.fixture
def kernel(tmp_path: Path, forkers: Callable[[str], KeptForker]) -> Iterator[RuntimeUnderTest]:
    """A runtime with control groups of the kernel."""
    root = MOUNT / f"muster-test-{os.getpid()}"
    try:
        controllers = (MOUNT / "cgroup.subtree_control").read_text().split()
        if not {"memory", "pids"} <= set(controllers):
            pytest.skip(f"cgroup v2 of this machine hands down {controllers}, and not memory and pids")
        root.mkdir()
        (root / "cgroup.subtree_control").write_text("+memory +pids")
    except OSError as error:
        pytest.skip(f"no cgroup v2 group can be made here: {error}")
    made = under_root(root, tmp_path / "state", forkers)
    yield made
    stop_everything(made.runtime)
    root.rmdir()  # fails while the group of a job is left


ALLOCATE = f"{sys.executable} -c 'print(len(bytearray(300 << 20)))'"


def test_the_kernel_ends_a_job_that_takes_more_memory_than_its_limit(kernel: RuntimeUnderTest) -> None:
    status, output = kernel.run(ALLOCATE, memory_mib=64)
    assert (status.reason, status.detail) == (EndReason.OUT_OF_MEMORY, "out of memory: the limit is 64 MiB")
    assert output == b""


def test_the_kernel_refuses_a_process_beyond_the_limit(kernel: RuntimeUnderTest) -> None:
    _, output = kernel.run("for i in $(seq 100); do sleep 30 & done; echo started all")
    assert b"started all" not in output
    assert b"Resource temporarily unavailable" in output


def test_a_process_that_removed_its_mark_ends_with_its_group(kernel: RuntimeUnderTest, seconds: str) -> None:
    number = kernel.start(f"env -i sleep {seconds} & wait")
    eventually(lambda: is_alive(seconds), "the sleeper")
    os.kill(kernel.shim(number), signal.SIGKILL)
    eventually(lambda: kernel.runtime.observe(number).phase is Phase.GONE)
    kernel.runtime.settle(number, ExitStatus(EndReason.UNKNOWN))
    assert not is_alive(seconds)
