"""What can be told of processes from /proc, and of control groups."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nodeagent.runtime.shim import meters


def test_what_a_process_and_its_children_wrote_is_counted(tmp_path: Path) -> None:
    before = meters.io_of([os.getpid()])
    assert before is not None
    script = "import os; f = open('it', 'wb'); f.write(b'x' * (1 << 20)); f.flush(); os.fsync(f.fileno())"
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    after = meters.io_of([os.getpid()])
    assert after is not None
    if Path(tmp_path / "it").stat().st_blocks == 0 or after.write_bytes == before.write_bytes:
        pytest.skip("the kernel keeps no account of what is written to this file system")
    assert after.write_bytes - before.write_bytes >= 1 << 20


def test_a_process_that_has_ended_adds_nothing() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert meters.io_of([ended.pid]) == meters.Io(0, 0)


def test_a_network_that_is_the_agents_too_cannot_be_told() -> None:
    assert meters.network_of(os.getpid()) is None
    assert meters.network_of(1 << 22) is None


@pytest.mark.parametrize(
    ("lines", "folder", "stat", "mib"),
    [
        ("0::/system.slice/docker-1.scope\n", "system.slice/docker-1.scope", "anon 7\nfile 3145728\n", 3.0),
        ("4:memory:/docker/1\n0::/\n", "memory/docker/1", "cache 1\ntotal_cache 1048576\n", 1.0),
        ("4:cpu,memory:/a:b\n", "memory/a:b", "total_cache 0\n", 0.0),
        ("0::/without\n", "without", "anon 7\n", None),
        ("0::/gone\n", "elsewhere", "file 1\n", None),
        ("3:cpuset:/x\n", "x", "file 1\n", None),
    ],
)
def test_the_page_cache_is_that_of_the_control_group(
    lines: str, folder: str, stat: str, mib: float | None, tmp_path: Path
) -> None:
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cgroup").write_text(lines)
    (tmp_path / "groups" / folder).mkdir(parents=True)
    (tmp_path / "groups" / folder / "memory.stat").write_text(stat)
    assert meters.page_cache_mib_of(7, str(tmp_path / "groups"), str(tmp_path / "proc")) == mib
