"""Figures of processes from /proc, and of control groups."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nodeagent.runtime.shim import meters
from tests.namespaces import network


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


# It sends a million bytes, hears a hundred thousand, and stays.
TALK = """
import socket, sys
link = socket.create_connection((sys.argv[1], int(sys.argv[2])))
link.sendall(bytes(1_000_000))
left = 100_000
while left:
    left -= len(link.recv(left))
print("heard", flush=True)
sys.stdin.read()
"""


def test_of_a_network_of_its_own_all_but_loopback_is_counted() -> None:
    with network(1) as net, net.listen() as listener:
        (member,) = net.members
        host, port = listener.getsockname()
        talk = member.command([sys.executable, "-c", TALK, host, str(port)])
        with subprocess.Popen(talk, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            listener.settimeout(20)
            link, _ = listener.accept()
            with link:
                before = meters.network_of(process.pid)
                assert before is not None
                left = 1_000_000
                while left:
                    left -= len(link.recv(left))
                link.sendall(bytes(100_000))
                assert process.stdout.readline() == b"heard\n"
                after = meters.network_of(process.pid)
            process.stdin.close()
    assert after is not None
    assert 100_000 <= after[0] < 300_000  # with the headers of all packets
    assert 1_000_000 <= after[1] < 2_000_000


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
