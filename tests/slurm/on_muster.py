"""A Muster of four nodes with the names, sizes, partitions and accounts that `on_slurm` gives Slurm."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from muster.local.children import ROOT
from muster_client.client import Client
from tests.faults.cluster import Cluster
from tests.slurm.on_slurm import FIRST_ID, NODES
from tests.slurm.scripts import PYTHON, Place, Script

UID = 4321
"""The uid of the user: an account that no machine has, which Muster does not need."""
_TABLE = """
cluster_name: bench
shared_folders: [{shared}]
partitions:
  gpu: {{pool: pool, default: true, time: 1:00:00, max_time: 3-00:00:00, memory_per_cpu: 2048}}
  debug: {{pool: pool, time: 10:00, max_time: 30:00, max_nodes: 2, memory_per_cpu: 2048}}
  cpu: {{pool: pool, time: 1:00:00, max_time: 7-00:00:00, memory_per_cpu: 2048}}
accounts:
  lab1: {{tenant: lab1, default: true}}
  lab2: {{tenant: lab2}}
qos:
  normal: {{default: true}}
  short: {{max_time: 2:00:00}}
  long: {{}}
"""
_PREPARE = """
from datetime import timedelta
from muster.accounts.services import create_token, create_user
from muster.fleet.models import Node, Pool
from muster.sbatch.models import SlurmTable
from muster.tenants.roles import Role
from muster.tenants.services import add_member, create_tenant, create_virtual_cluster
who, pool = {{"actor": "tests"}}, Pool.objects.get()
Pool.objects.update(admission="open")  # accounts of Slurm have no quota either
user = create_user(username="ann", password="not a secret: it lives for minutes", uid={uid}, **who)
for name in ("lab1", "lab2"):
    tenant = create_tenant(name=name, **who)
    create_virtual_cluster(tenant=tenant, pool=pool, name=name, **who)
    add_member(tenant=tenant, user=user, role=Role.MEMBER, **who)
for name, features in {nodes}.items():
    node = Node.objects.get(name=name)
    node.labels = node.labels | dict.fromkeys(features.split(",")[1:], "yes")
    node.save()
SlurmTable.objects.create(version=1, text={table!r}, author="tests")
print(create_token(user=user, name="tests", expires_in=timedelta(days=1))[1])
"""


@dataclass(frozen=True, slots=True)
class Muster:
    """The running platform, and the user whose jobs it runs."""

    cluster: Cluster
    client: Client
    environment: dict[str, str]
    uid: int = UID
    gid: int = UID

    def submit(self, place: Place, script: Script) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(Path(sys.executable).with_name("muster")), "sbatch", *script.words],
            cwd=place.folder,
            env={**place.environment(script), **self.environment},
            input=script.script if script.stdin else "",
            capture_output=True,
            text=True,
            check=False,
        )

    def ask(self, *words: str) -> str:
        return self.client.slurm(words[0], words[1:])["stdout"]


@contextmanager
def running(shared: Path) -> Iterator[Muster]:
    """The platform with its agents; scripts are submitted below the shared folder."""
    cluster = Cluster(tuple(NODES), periodic=True)
    try:
        cluster.sql("SELECT setval(pg_get_serial_sequence('jobs_job', 'id'), %s, false)", FIRST_ID)
        table = _TABLE.format(shared=shared)
        token = cluster.python(_PREPARE.format(uid=UID, nodes=NODES, table=table)).split()[-1]
        given = {"MUSTER_URL": cluster.url, "MUSTER_TOKEN": token, "MUSTER_CONFIG": f"{cluster.home}/config"}
        with Client(cluster.url, token) as client:
            yield Muster(cluster, client, given)
    finally:
        cluster.stop()


def commands(muster: Muster, folder: Path) -> None:
    """Writes sbatch, squeue and the like to the folder, as programs of the machine's Python that call Muster's."""
    packages = os.pathsep.join([str(ROOT), *(path for path in sys.path if path.endswith("site-packages"))])
    given = {**muster.environment, "PYTHONPATH": packages}
    words = shlex.join(["exec", "env", *(f"{name}={value}" for name, value in given.items()), PYTHON])
    for name in ("sbatch", "squeue", "scancel", "sinfo", "sacct", "scontrol"):
        path = folder / name
        path.write_text(f"#!/bin/sh\n{words} -c 'from muster_client.main import main; main()' {name} \"$@\"\n")
        path.chmod(0o755)


def main(words: list[str]) -> int:
    """Starts a Muster, and runs a command as its user with Slurm's words on PATH and the shared folder as $SHARED."""
    shared = Path(tempfile.mkdtemp(prefix="muster-shared-"))
    shared.chmod(0o777)
    try:
        with running(shared) as muster:
            (shared / "bin").mkdir()
            commands(muster, shared / "bin")
            environment = {"PATH": f"{shared}/bin:/usr/bin:/bin", "SHARED": str(shared), "LANG": "C.UTF-8"}
            who = {"user": muster.uid, "group": muster.gid, "extra_groups": []}
            return subprocess.run(words, env=environment, cwd=shared, check=False, **who).returncode
    finally:
        shutil.rmtree(shared, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["/bin/sh"]))
