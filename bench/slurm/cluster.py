"""Starts an instance of Slurm in a folder of its own, and leaves nothing of it behind."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench.slurm.accounting import PROGRAMS, Accounting
from bench.slurm.config import Layout, Profile, gres_conf, slurm_conf
from muster.local import processes

_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo")
# Debian keeps daemons out of the PATH of ordinary users.
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 10.0
_POLL_S = 0.05
_NULL_DEVICE = os.makedev(1, 5)


class SlurmError(RuntimeError):
    """The bench's own Slurm does not work here; the message says why."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running instance."""

    layout: Layout
    daemons: Mapping[str, list[int]]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its command line tools."""
        return _environment(self.layout)

    def groups(self) -> dict[str, list[int]]:
        """The processes of each daemon with what they have started."""
        return {
            name: [below for pid in pids for below in (pid, *processes.descendants(pid))]
            for name, pids in self.daemons.items()
        }


def missing(*, accounting: bool = False) -> str:
    """The reason that Slurm cannot be run here; empty if it can."""
    wanted = (*_PROGRAMS, *(PROGRAMS if accounting else ()))
    absent = [name for name in wanted if shutil.which(name, path=_PATH) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    return "" if os.geteuid() == 0 else "needs root, to make device files for its GPUs"


@contextmanager
def running_slurm(profile: Profile, *, nodes: int, gpus_per_node: int) -> Iterator[Cluster]:
    """An instance whose nodes are all idle; it and its folder are gone when the block ends."""
    reason = missing(accounting=bool(profile.accounts))
    if reason:
        raise SlurmError(reason)
    processes.become_subreaper()  # a step's daemon leaves its parent, and must be found all the same
    with tempfile.TemporaryDirectory(prefix="muster-bench-slurm-") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        controller_port, database_port, accounting_port, *node_ports = _free_ports(3 + nodes)
        layout = Layout(folder, socket.gethostname(), controller_port, tuple(node_ports), gpus_per_node)
        accounting = Accounting(folder, layout.host, layout.munge_socket, database_port, accounting_port)
        if profile.accounts:
            profile = replace(profile, settings={**profile.settings, **accounting.settings()})
        _write_files(layout, profile)
        stack.callback(_end_strays, frozenset(processes.descendants(os.getpid())))
        munged = _start(stack, "munged", _munged(folder, layout.munge_socket), layout)
        _await(layout.munge_socket.exists, "munged", folder)
        daemons = {"munged": [munged]}
        if profile.accounts:
            daemons |= _keep_accounts(stack, accounting, profile.accounts, layout)
        controller = _start(stack, "slurmctld", ["slurmctld", "-D", "-f", str(layout.config)], layout)
        agents = [
            _start(stack, f"slurmd-{node}", ["slurmd", "-D", "-N", node, "-f", str(layout.config)], layout)
            for node in layout.node_names
        ]
        cluster = Cluster(layout, {**daemons, "slurmctld": [controller], "slurmd": agents})
        _await(lambda: _idle_nodes(cluster) == nodes, "slurmctld", folder)
        yield cluster


def _write_files(layout: Layout, profile: Profile) -> None:
    folder = layout.folder
    (folder / "state").mkdir(mode=0o700)
    (folder / "munge").mkdir(mode=0o700)
    for node in layout.node_names:
        (folder / f"spool-{node}").mkdir(mode=0o755)
    key = folder / "munge" / "key"
    key.touch(mode=0o400)
    key.write_bytes(secrets.token_bytes(1024))
    for number in range(len(layout.node_names) * layout.gpus_per_node):
        os.mknod(layout.gpu_device(number), 0o666 | stat.S_IFCHR, _NULL_DEVICE)
    layout.config.write_text(slurm_conf(layout, profile))
    (folder / "gres.conf").write_text(gres_conf(layout))
    (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")


def _keep_accounts(
    stack: ExitStack, accounting: Accounting, accounts: Sequence[str], layout: Layout
) -> dict[str, list[int]]:
    """Starts a database and slurmdbd, and makes the accounts."""

    def runs(*words: str) -> bool:
        told = subprocess.run(words, env=_environment(layout), capture_output=True, text=True, check=False)
        with (layout.folder / "accounting.out").open("a") as output:
            output.write(f"{words}: {told.returncode}\n{told.stdout}{told.stderr}")
        return told.returncode == 0

    accounting.write()
    runs(*accounting.installation)
    database = _start(stack, "mariadbd", accounting.database, layout)
    _await(lambda: runs(*accounting.preparation), "mariadbd", layout.folder)
    daemon = _start(stack, "slurmdbd", ["slurmdbd", "-D"], layout)
    _await(lambda: runs("sacctmgr", "-n", "show", "cluster"), "slurmdbd", layout.folder)
    failed = [words for words in accounts if not runs("sacctmgr", "-i", *words.split())]
    if failed:
        raise SlurmError(f"sacctmgr refuses: {'; '.join(failed)}")
    return {"mariadbd": [database], "slurmdbd": [daemon]}


def _munged(folder: Path, door: Path) -> list[str]:
    files = {"key-file": "key", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    options = [f"--{option}={folder / 'munge' / name}" for option, name in files.items()]
    # It warns of running as root, and goes on only when told twice.
    return ["munged", "--foreground", "--force", f"--socket={door}", *options]


def _start(stack: ExitStack, name: str, argv: list[str], layout: Layout) -> int:
    """The process id of a daemon that ends with the stack."""
    with (layout.folder / f"{name}.out").open("wb") as output:
        daemon = subprocess.Popen(
            argv,
            env=_environment(layout),
            cwd=layout.folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    stack.callback(_end, daemon)
    return daemon.pid


def _end(daemon: subprocess.Popen[bytes]) -> None:
    daemon.terminate()
    try:
        daemon.wait(timeout=_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _end_strays(others: frozenset[int]) -> None:
    def strays() -> list[int]:
        return [pid for pid in processes.descendants(os.getpid()) if pid not in others]

    processes.reap(strays())
    left = processes.end_all(strays, grace_s=2.0)
    processes.reap(strays())
    if left:
        raise SlurmError(f"these processes of Slurm do not end: {', '.join(map(str, left))}")


def _await(ready: Callable[[], bool], daemon: str, folder: Path) -> None:
    end = time.monotonic() + _START_TIMEOUT_S
    while not ready():
        if time.monotonic() >= end:
            output = (folder / f"{daemon}.out").read_text(errors="replace")[-2000:]
            raise SlurmError(f"{daemon} does not get ready; the end of what it wrote:\n{output}")
        time.sleep(_POLL_S)


def _idle_nodes(cluster: Cluster) -> int:
    told = subprocess.run(
        ["sinfo", "--noheader", "--Node", "--format=%N %t"],
        env=cluster.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    # A node has a line for each of its partitions.
    return sum(line.endswith(" idle") for line in set(map(str.strip, told.stdout.splitlines())))


def _without_slurm() -> dict[str, str]:
    # A Slurm job of the user's own may have started us; its variables would steer our instance.
    return {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SBATCH_"))}


def _environment(layout: Layout) -> dict[str, str]:
    return {**_without_slurm(), "PATH": _PATH, "SLURM_CONF": str(layout.config)}


def _free_ports(count: int) -> list[int]:
    with ExitStack() as doors:
        found = [doors.enter_context(socket.socket()) for _ in range(count)]
        for door in found:
            door.bind(("127.0.0.1", 0))
        return [door.getsockname()[1] for door in found]
