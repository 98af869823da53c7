"""The configuration of the bench's own Slurm: its defaults, and the same tuned for short jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

GPU_TYPE = "a100"
CPUS_PER_NODE, MEMORY_MIB_PER_NODE = 16, 131_072


@dataclass(frozen=True, slots=True)
class Profile:
    """A way to run Slurm, and why it is measured; a slow one is measured with fewer samples."""

    name: str
    why: str
    settings: Mapping[str, str]
    slow: bool = False
    features: Mapping[str, str] = field(default_factory=dict)
    """Features by node."""
    partitions: Sequence[str] = ("PartitionName=main Default=YES MaxTime=INFINITE",)
    """Lines of partitions, each of all nodes."""
    memory_mib: int = MEMORY_MIB_PER_NODE
    accounts: Sequence[str] = ()
    """Commands of `sacctmgr`; where there are any, slurmdbd runs and keeps the accounting."""


PROFILES = (
    Profile("Slurm, defaults", "every scheduling parameter as it is shipped; fewer samples", {}, slow=True),
    Profile(
        "Slurm, tuned",
        "no delays before and between scheduling runs, no waits at a job's end: what its documentation names for "
        "many short jobs",
        {
            "SchedulerParameters": "defer,batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1",
            "EpilogMsgTime": "0",
        },
    ),
)


@dataclass(frozen=True, slots=True)
class Layout:
    """The folder, the host and the ports of one instance."""

    folder: Path
    host: str
    controller_port: int
    node_ports: tuple[int, ...]
    gpus_per_node: int

    @property
    def config(self) -> Path:
        return self.folder / "slurm.conf"

    @property
    def completions(self) -> Path:
        """The file to which the controller appends a line for each job that has ended."""
        return self.folder / "completions"

    @property
    def munge_socket(self) -> Path:
        return self.folder / "munge.socket"

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(f"n{number}" for number in range(1, len(self.node_ports) + 1))

    def gpu_device(self, number: int) -> Path:
        """The device file of a fake GPU, counted over all nodes."""
        return self.folder / f"gpu{number}"


def slurm_conf(layout: Layout, profile: Profile) -> str:
    """The text of slurm.conf.

    Accounting, if the profile has no accounts, and its sampling are off and no cgroups are used, which make Slurm
    faster than in most places.
    """
    folder = layout.folder
    settings = {
        "ClusterName": "bench",
        "SlurmctldHost": f"{layout.host}(127.0.0.1)",
        "SlurmctldPort": str(layout.controller_port),
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={layout.munge_socket}",
        "CredType": "cred/munge",
        "StateSaveLocation": str(folder / "state"),
        "SlurmdSpoolDir": str(folder / "spool-%n"),
        "SlurmctldPidFile": str(folder / "slurmctld.pid"),
        "SlurmdPidFile": str(folder / "slurmd-%n.pid"),
        "SlurmctldLogFile": str(folder / "slurmctld.log"),
        "SlurmdLogFile": str(folder / "slurmd-%n.log"),
        "MailProg": "/bin/true",
        "MpiDefault": "none",
        "ProctrackType": "proctrack/pgid",
        "TaskPlugin": "task/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "GresTypes": "gpu",
        "ReturnToService": "2",
        "SlurmdParameters": "config_overrides",
        "AccountingStorageType": "accounting_storage/none",
        "JobAcctGatherType": "jobacct_gather/none",
        "JobCompType": "jobcomp/filetxt",
        "JobCompLoc": str(layout.completions),
        **profile.settings,
    }
    nodes = [
        f"NodeName={name} NodeHostname={layout.host} NodeAddr=127.0.0.1 Port={port} CPUs={CPUS_PER_NODE} "
        f"RealMemory={profile.memory_mib} Gres=gpu:{GPU_TYPE}:{layout.gpus_per_node} State=UNKNOWN"
        + (f" Feature={profile.features[name]}" if name in profile.features else "")
        for name, port in zip(layout.node_names, layout.node_ports, strict=True)
    ]
    partitions = [f"{line} Nodes={','.join(layout.node_names)} State=UP" for line in profile.partitions]
    return "\n".join([*(f"{name}={value}" for name, value in settings.items()), *nodes, *partitions, ""])


def gres_conf(layout: Layout) -> str:
    """The text of gres.conf: each fake GPU is a device file, because Slurm counts files."""
    lines = []
    for index, name in enumerate(layout.node_names):
        first = index * layout.gpus_per_node
        files = f"{layout.folder}/gpu[{first}-{first + layout.gpus_per_node - 1}]"
        lines.append(f"NodeName={name} Name=gpu Type={GPU_TYPE} File={files}")
    return "\n".join([*lines, ""])
