"""`muster-agent join`: register this node, once, and write the unit by which systemd keeps its agent running."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
from typing import Sequence

from nodeagent import __version__
from nodeagent.cli.agent import Options, look_around
from nodeagent.cli.daemon import program
from nodeagent.gpu.choose import open_gpus
from nodeagent.runtime.choose import open_runtime
from nodeagent.runtime.process.cgroup import AGENT_GROUP
from nodeagent.state.identity import Identity
from nodeagent.sync.session import register
from nodeagent.system.files import read_json, write_atomic
from nodeagent.transport.client import Client
from nodeagent.transport.transport import Dialled

UNIT = "muster-agent.service"
UNIT_FOLDER = "/etc/systemd/system"
ANSWER_WITHIN_S = 60.0
_DELEGATES_SINCE = 254
_DELEGATION = (
    "# The agent limits memory and processes of jobs by control groups beside its own.",
    "Delegate=memory pids",
    "DelegateSubgroup={}".format(AGENT_GROUP),
)
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./:,@")

_log = logging.getLogger("nodeagent")


def join(options: Options, words: Sequence[str], systemd: bool) -> int:
    """Register unless that was done before, then print the unit, or install it; returns the exit status.

    `words` are those of `run` beside the platform and the state folder. Raises what `agent.run` raises for a node that
    could not run; `session.Rejected` when the platform refuses it; `ValueError` when the unit cannot be installed,
    which is looked at first: the token works once.
    """
    command = [*program(), "run", "--url", options.url, "--state", os.path.abspath(options.state), *words]
    unit = unit_text(command, delegates=systemd_delegates())
    if systemd and not (os.geteuid() == 0 and os.path.isdir(UNIT_FOLDER)):
        raise ValueError("--systemd needs root and the folder {}; without it the unit is printed".format(UNIT_FOLDER))
    if not _registered(options):
        _log.error("%s did not answer within %.0f s", options.url, ANSWER_WITHIN_S)
        return 1
    if not systemd:
        sys.stdout.write(unit)
        return 0
    write_atomic(os.path.join(UNIT_FOLDER, UNIT), unit.encode(), mode=0o644, sync=True)
    if os.path.isdir("/run/systemd/system"):
        subprocess.run(["systemctl", "daemon-reload"], check=False)
    _log.info("installed %s; start it now and at every boot: systemctl enable --now muster-agent", UNIT)
    return 0


def systemd_delegates() -> bool:
    """True if this machine's systemd can start the agent in a group below that of its unit."""
    try:
        told = subprocess.run(["systemctl", "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return False
    version = re.match(r"systemd (\d+)", told)
    return version is not None and int(version.group(1)) >= _DELEGATES_SINCE


def unit_text(command: Sequence[str], *, delegates: bool = False) -> str:
    """The unit that runs `command`; with `delegates`, the agent limits jobs by control groups."""
    lines = [
        "[Unit]",
        "Description=The agent of a Muster node",
        "Wants=network-online.target",
        "After=network-online.target docker.service",
        "",
        "[Service]",
        *(
            ["Environment={}".format(_quoted("PYTHONPATH=" + path, dollar="$"))]
            if (path := os.environ.get("PYTHONPATH"))
            else []
        ),
        "ExecStart={}".format(" ".join(_quoted(word) for word in command)),
        "# Jobs outlive the agent: only the agent itself is ended, and the next one adopts them.",
        "KillMode=process",
        "# A job that runs out of memory ends by itself, not the agent with it.",
        "OOMPolicy=continue",
        "TasksMax=infinity",
        *(_DELEGATION if delegates else []),
        "Restart=always",
        "RestartSec=2",
        "# Superseded, or refused for good: to try again changes nothing.",
        "RestartPreventExitStatus=3 4 5",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    if os.geteuid() != 0:
        lines.insert(lines.index("KillMode=process") - 1, "User={}".format(os.geteuid()))
    return "\n".join(lines) + "\n"


def _registered(options: Options) -> bool:
    """True if the platform knows this node; False also if it does not answer."""
    identity = Identity(options.state)
    try:
        if identity.enrolled:
            known = read_json(identity.path("node.json")) or {}
            _log.info(
                "registered before, as %s: the token is not used. To join anew, drain the node and take %s away",
                known.get("node_name"),
                identity.state,
            )
            return True
        gpus = open_gpus(options.gpus, identity.name, identity.path("emulated-faults"), options.gpu_profiles)
        runtime = open_runtime(
            options.runtime,
            state=identity.state,
            identity=identity.name,
            emulated_gpus=gpus.name == "emulated",
            listener=lambda _id, _kind: None,
        )
        transport = Dialled(options.url, options.ca_file)
        stopping = threading.Event()
        patience = threading.Timer(ANSWER_WITHIN_S, stopping.set)
        patience.daemon = True
        patience.start()
        try:
            found = look_around(options, identity, gpus, runtime, transport)
            token = options.join_token
            client = Client(transport)
            return (
                register(client, identity, found, version=__version__, join_token=token, stopping=stopping) is not None
            )
        finally:
            patience.cancel()
            transport.close()
            runtime.close()
            gpus.close()
    finally:
        identity.close()


def _quoted(word: str, dollar: str = "$$") -> str:
    """A word as systemd reads it back: in a command line a dollar sign is written twice."""
    if any(ord(letter) < 32 for letter in word):
        raise ValueError("{!r} cannot stand in a unit of systemd".format(word))
    written = {"\\": "\\\\", '"': '\\"', "%": "%%", "$": dollar}
    plain = word and set(word) <= _PLAIN
    return word if plain else '"{}"'.format("".join(written.get(letter, letter) for letter in word))
