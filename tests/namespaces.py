"""Network namespaces that stand for servers: each has its own link to a bridge, on which packets can be dropped.

By the bridge they reach each other, and sockets of ours that listen there. It is in a namespace, too: an address that
comes or goes on this machine itself makes every Chromium break off what it loads. Names and addresses are made of our
process number; what a run that was killed has left is removed by the next one. Where they cannot be, tests are skipped
with the reason.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum

from muster.local.processes import is_alive
from tests.needed import skip_without

_OURS = re.compile(r"^mustns(\d+)-\w+\b", re.MULTILINE)
_BRIDGE = "bridge"
_CLONE_NEWNET = 0x40000000


class Lost(Enum):
    """Packets dropped between a namespace and the others; the value names chains of iptables."""

    TO_IT = ("INPUT",)
    BOTH = ("INPUT", "OUTPUT")


@dataclass(frozen=True, slots=True)
class Namespace:
    """One server's network."""

    name: str
    address: str

    def command(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The command line that runs a program inside; nsenter replaces itself by the program."""
        return ("nsenter", f"--net={_path(self.name)}", *argv)

    def cut(self, lost: Lost) -> None:
        """Drops packets from now on, without a word to either side."""
        for chain in lost.value:
            _run(*self.command(("iptables", "-w", "-A", chain, "-j", "DROP")))

    def heal(self) -> None:
        """Drops nothing any more."""
        _run(*self.command(("iptables", "-w", "-F")))


@dataclass(frozen=True, slots=True)
class Network:
    """The namespaces, and the hub that joins them."""

    hub: Namespace
    members: tuple[Namespace, ...]

    def listen(self) -> socket.socket:
        """A socket of this process that all of them can connect to."""

        def open_inside() -> socket.socket:
            # Only the thread that asks for it moves, and what it opens stays there.
            with open(_path(self.hub.name)) as namespace:
                if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), f"no thread may enter {self.hub.name}")
            return socket.create_server((self.hub.address, 0))

        with ThreadPoolExecutor(max_workers=1) as pool:
            return pool.submit(open_inside).result()


@contextlib.contextmanager
def network(count: int) -> Iterator[Network]:
    """`count` namespaces while the block lasts; skips the test where none can be made."""
    lacking = [name for name in ("ip", "iptables", "nsenter") if shutil.which(name) is None]
    if lacking:
        why = f"{', '.join(lacking)} missing: `make engines` installs it where there are apt and root"
        skip_without("networks", why)
    if os.geteuid() != 0:
        skip_without("networks", "only root may make network namespaces")
    _remove_leftovers()
    own = os.getpid()
    subnet = f"10.{64 + own // 256 % 64}.{own % 256}"
    hub = Namespace(f"mustns{own}-hub", f"{subnet}.1")
    members = tuple(Namespace(f"mustns{own}-{number}", f"{subnet}.{number + 2}") for number in range(count))
    try:
        _add(hub)
        _in(hub, "link", "add", _BRIDGE, "type", "bridge")
        _set_up(hub, _BRIDGE)
        for member in members:
            _add(member)
            # Both ends are made in their places, so the outer one may have the namespace's name.
            _in(hub, "link", "add", member.name, "type", "veth", "peer", "name", "eth0", "netns", member.name)
            _in(hub, "link", "set", member.name, "master", _BRIDGE, "up")
            _set_up(member, "eth0")
        yield Network(hub, members)
    finally:
        # A namespace lives on for as long as a process or a connection is in it, and its link with it.
        for member in members:
            subprocess.run(["ip", "-n", hub.name, "link", "del", member.name], check=False, capture_output=True)
        for one in (*members, hub):
            subprocess.run(["ip", "netns", "del", one.name], check=False, capture_output=True)


def _add(one: Namespace) -> None:
    _run("ip", "netns", "add", one.name)
    _in(one, "link", "set", "lo", "up")


def _set_up(one: Namespace, interface: str) -> None:
    _in(one, "addr", "add", f"{one.address}/24", "dev", interface)
    _in(one, "link", "set", interface, "up")


def _in(one: Namespace, *words: str) -> None:
    _run("ip", "-n", one.name, *words)


def _path(name: str) -> str:
    return f"/run/netns/{name}"


def _remove_leftovers() -> None:
    """Removes what belongs to processes that are no more."""
    text = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout
    for found in _OURS.finditer(text):
        if not is_alive(int(found[1])):
            _kill_all(found[0])
            subprocess.run(["ip", "netns", "del", found[0]], check=False, capture_output=True)


def _kill_all(namespace: str) -> None:
    """Kills agents and jobs that live in a namespace: they cannot be found once its name is gone."""
    inside = subprocess.run(["ip", "netns", "pids", namespace], check=False, capture_output=True, text=True)
    for pid in map(int, inside.stdout.split()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _run(*words: str) -> None:
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
