"""Network namespaces that stand for servers: each has its own link to this machine, on which packets can be dropped.

They all hang on one bridge, by which they reach each other and us. Names and addresses are made of our process number;
what a run that was killed has left is removed by the next one. Where they cannot be, tests are skipped with the reason.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import pytest

from muster.local.processes import is_alive

_OURS = re.compile(r"^must(?:br|ns)(\d+)(?:-\d+)?\b", re.MULTILINE)


class Lost(Enum):
    """Which packets between a namespace and everybody else are dropped; the value names chains of iptables."""

    TO_IT = ("INPUT",)
    FROM_IT = ("OUTPUT",)
    BOTH = ("INPUT", "OUTPUT")


@dataclass(frozen=True, slots=True)
class Namespace:
    """One server's network."""

    name: str
    address: str

    def command(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The command line by which a program runs inside; its process is the one that is started."""
        return ("nsenter", f"--net=/run/netns/{self.name}", *argv)

    def cut(self, lost: Lost) -> None:
        """Drops packets from now on, without a word to either side."""
        for chain in lost.value:
            _run(*self.command(("iptables", "-w", "-A", chain, "-j", "DROP")))

    def heal(self) -> None:
        """Drops nothing any more."""
        _run(*self.command(("iptables", "-w", "-F")))


@dataclass(frozen=True, slots=True)
class Network:
    """The namespaces, and the address at which they find what listens on this machine."""

    host: str
    members: tuple[Namespace, ...]


@contextlib.contextmanager
def network(count: int) -> Iterator[Network]:
    """So many namespaces while the block lasts; skips the test where there can be none."""
    lacking = [name for name in ("ip", "iptables", "nsenter") if shutil.which(name) is None]
    if lacking:
        pytest.skip(f"{', '.join(lacking)} missing: `make engines` installs it where there are apt and root")
    if os.geteuid() != 0:
        pytest.skip("only root may make network namespaces")
    _remove_leftovers()
    own = os.getpid()
    bridge = f"mustbr{own}"
    subnet = f"10.{64 + own // 256 % 64}.{own % 256}"
    names = [f"mustns{own}-{number}" for number in range(count)]
    try:
        _run("ip", "link", "add", bridge, "type", "bridge")
        _run("ip", "addr", "add", f"{subnet}.1/24", "dev", bridge)
        _run("ip", "link", "set", bridge, "up")
        members = tuple(Namespace(name, f"{subnet}.{number}") for number, name in enumerate(names, 2))
        for member in members:
            _connect(member, bridge)
        yield Network(f"{subnet}.1", members)
    finally:
        for name in names:
            # A namespace lives on for as long as a process or a connection is in it, and its link with it.
            subprocess.run(["ip", "link", "del", name], check=False, capture_output=True)
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", bridge], check=False, capture_output=True)


def _connect(member: Namespace, bridge: str) -> None:
    _run("ip", "netns", "add", member.name)
    # The inner end is made in its place, so the outer one may have the namespace's name.
    _run("ip", "link", "add", member.name, "type", "veth", "peer", "name", "eth0", "netns", member.name)
    _run("ip", "link", "set", member.name, "master", bridge, "up")
    for words in (
        ("addr", "add", f"{member.address}/24", "dev", "eth0"),
        ("link", "set", "eth0", "up"),
        ("link", "set", "lo", "up"),
    ):
        _run("ip", "-n", member.name, *words)


def _remove_leftovers() -> None:
    """Removes what belongs to processes that are no more."""
    for kind in ("netns", "link"):
        listing = ("ip", "netns", "list") if kind == "netns" else ("ip", "-brief", "link", "show")
        text = subprocess.run(listing, check=True, capture_output=True, text=True).stdout
        for found in _OURS.finditer(text):
            if is_alive(int(found[1])):
                continue
            if kind == "netns":
                _kill_all(found[0])
            subprocess.run(["ip", kind, "del", found[0]], check=False, capture_output=True)


def _kill_all(namespace: str) -> None:
    """Kills agents and jobs that live in a namespace: without its name, nobody would find them there any more."""
    inside = subprocess.run(["ip", "netns", "pids", namespace], check=False, capture_output=True, text=True)
    for pid in map(int, inside.stdout.split()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _run(*words: str) -> None:
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
