"""A real Slurm of four emulated nodes, for the scripts of this folder: as root, with an ordinary account for jobs."""

from __future__ import annotations

import pwd
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.slurm.cluster import Cluster, missing, running_slurm
from bench.slurm.config import Profile
from tests.slurm.scripts import Place, Script

NODES = {"n1": "a100,nvlink,ib", "n2": "a100,nvlink,ib", "n3": "a100,ib", "n4": "a100"}
GPUS, CPUS, MEMORY_MIB = 4, 16, 65_536
FIRST_ID = 700_000
"""Of six digits, so that no other number of a script is taken for one."""
_CLUSTER = "bench"


def profile(user: str) -> Profile:
    """The configuration, with accounts for one user."""
    return Profile(
        "Slurm, as clusters with GPUs have it",
        "what Muster is compared with",
        {
            "SelectTypeParameters": "CR_Core_Memory",
            "DefMemPerCPU": "2048",
            "EnforcePartLimits": "ALL",
            "SchedulerParameters": "defer,batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1",
            "EpilogMsgTime": "0",
            "KillWait": "5",
            "FirstJobId": str(FIRST_ID),
            "ProctrackType": "proctrack/linuxproc",
            "AccountingStorageEnforce": "associations,limits,qos",
        },
        features=NODES,
        partitions=(
            "PartitionName=gpu Default=YES MaxTime=3-00:00:00 DefaultTime=01:00:00",
            "PartitionName=debug MaxTime=00:30:00 DefaultTime=00:10:00 MaxNodes=2",
            "PartitionName=cpu MaxTime=7-00:00:00 DefaultTime=01:00:00",
        ),
        memory_mib=MEMORY_MIB,
        accounts=(
            f"add cluster {_CLUSTER}",
            f"add account lab1 Cluster={_CLUSTER}",
            f"add account lab2 Cluster={_CLUSTER}",
            f"add user {user} Account=lab1 DefaultAccount=lab1",
            f"add user {user} Account=lab2",
            "add qos short",
            "modify qos short set MaxWall=02:00:00 Flags=DenyOnLimit",
            f"modify user {user} set qos=normal,short defaultqos=normal",
        ),
    )


@dataclass(frozen=True, slots=True)
class Slurm:
    """The running Slurm and the account whose jobs it runs."""

    cluster: Cluster
    account: pwd.struct_passwd

    @property
    def uid(self) -> int:
        return self.account.pw_uid

    @property
    def gid(self) -> int:
        return self.account.pw_gid

    def submit(self, place: Place, script: Script) -> subprocess.CompletedProcess[str]:
        return self._run(
            ["sbatch", *script.words],
            cwd=place.folder,
            env={**place.environment(script), "SLURM_CONF": str(self.cluster.layout.config)},
            input=script.script if script.stdin else "",
        )

    def ask(self, *words: str) -> str:
        return self._run(list(words), env=self.cluster.environment).stdout

    def _run(self, words: list[str], **how: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, **how, user=self.uid, group=self.gid, extra_groups=[], capture_output=True, text=True, check=False
        )


def account() -> pwd.struct_passwd | None:
    """An account of an ordinary user of this machine with a login shell, since Slurm knows no others."""
    for one in pwd.getpwall():
        if 1000 <= one.pw_uid < 60_000 and not one.pw_shell.endswith(("nologin", "false")):
            return one
    return None


def why_not() -> str:
    """The reason that no Slurm can run here; empty if it can."""
    return missing(accounting=True) or ("" if account() else "no account of an ordinary user")


@contextmanager
def running() -> Iterator[Slurm]:
    """The Slurm, idle; it is gone when the block ends."""
    user = account()
    assert user is not None
    with running_slurm(profile(user.pw_name), nodes=len(NODES), gpus_per_node=GPUS) as cluster:
        yield Slurm(cluster, user)
