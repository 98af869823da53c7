"""The commands that platform and documents show for a new server, run as they are by a shell on a clean machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.test import override_settings

from muster.fleet.package import agent_package, install_commands
from muster.local.supervisor import Child
from tests.console import install_lines
from tests.faults.cluster import Cluster

NEW_NODE = "n1"
# A copy of this machine whose changes go to memory: own mounts and processes, without this machine's environment.
CLEAN_MACHINE = """
set -e
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
root="$1/root"
shift
exec chroot "$root" "$@"
"""
# Starts the agent as systemd would, by the unit alone, with GPUs that this machine does not have.
SYSTEMCTL = """#!/bin/sh
test "$*" = 'enable --now muster-agent' || exit 1
exec $(sed -n s/^ExecStart=//p /etc/systemd/system/muster-agent.service) --gpus=emulated:A100:4 --address=127.0.0.1
"""
INSTALL = """
mkdir -p /etc/systemd/system /usr/local/bin && rm -rf /var/lib/muster-agent /usr/local/bin/muster-agent
printf '%s' "$SYSTEMCTL" > /usr/local/bin/systemctl && chmod 755 /usr/local/bin/systemctl
mkdir /install && cd /install && printf '%s\\n' "$COMMANDS" > commands && exec sh commands
"""


def inside(folder: Path, *argv: str) -> tuple[str, ...]:
    """The command line that runs a program on a clean machine, and ends all of it with its own process."""
    own = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
    return (*own, "sh", "-c", CLEAN_MACHINE, "sh", str(folder), *argv)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The folder where a clean machine is mounted; the test is skipped where there can be none."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    tried = subprocess.run(inside(tmp_path, "true"), capture_output=True, text=True, check=False)
    if os.geteuid() != 0 or tried.returncode != 0:
        pytest.skip(f"no copy of this machine can be mounted: {tried.stderr}")
    return tmp_path


@pytest.fixture
def installed(machine: Path) -> Iterator[Cluster]:
    """A cluster with a node that was added by nothing but the commands and a join token."""

    def by_the_commands(child: Child) -> Child:
        if child.name != NEW_NODE:
            return child
        words = dict(zip(child.argv[4::2], child.argv[5::2], strict=True))
        with override_settings(PUBLIC_URL=words["--url"]):
            commands = install_commands()
            page = "docs/operator/first-node.md"
            assert install_lines(page, address=words["--url"], digest=agent_package().sha256) == commands
        argv = ("sh", "-c", f'exec "$@" < {words["--join-token-file"]}', "sh", *inside(machine, "sh", "-c", INSTALL))
        environment = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        return replace(child, argv=argv, env={**environment, "COMMANDS": commands, "SYSTEMCTL": SYSTEMCTL})

    cluster = Cluster((NEW_NODE, "n2"), place=by_the_commands)
    try:
        yield cluster
    finally:
        cluster.stop()


def test_the_commands_join_a_server_and_a_job_runs_there(installed: Cluster) -> None:
    job = installed.submit("echo $(pwd) $(id -u)", nodes=2)
    assert installed.wait(job)["state"] == "succeeded", installed.story(job)
    ranks = [line.split() for line in installed.whole_log(job).decode().splitlines()]
    assert [int(uid) >= 1000 for folder, uid in ranks if folder.startswith("/var/lib/muster-agent/")] == [True]
    assert "muster-agent.pyz: OK" in installed.said(NEW_NODE)
