"""From a launch spec to what is asked of an engine: everything that a container may and may not do. Pure.

No container gets a capability, a way to new ones, the host's processes, memory or network names, a socket of the
engine, or a folder beside its own and the volumes that an operator allows. Its user is the member's, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Mapping, Optional, Sequence, Tuple

from nodeagent import jobside
from nodeagent.protocol.messages import (
    MAX_MOUNTS,
    EndReason,
    LaunchSpec,
    Message,
    absolute_workdir,
    overlap,
    target_problem,
    workdir_problem,
)
from nodeagent.runtime.container.cdi import Injection
from nodeagent.runtime.container.init import SCRIPT
from nodeagent.runtime.container.meeting import (
    INTERFACE,
    MASTERS,
    meets_by_names,
    named_environment,
    own_network,
    rank_name,
)
from nodeagent.runtime.container.options import Options
from nodeagent.runtime.container.volumes import Volumes
from nodeagent.runtime.port import LaunchError
from nodeagent.runtime.shim import progress, reported
from nodeagent.runtime.shim.folders import owned_environment, parts_below_work
from nodeagent.runtime.shim.gang import gang_environment
from nodeagent.runtime.shim.layout import AllocationFolder

OWN = "/muster"
"""The platform's folder in a container: its home and the FIFO for its output."""
_WORK = "/workspace"
_HOME = OWN + "/home"
MODULES = "{}/{}".format(_HOME, jobside.FOLDER)
"""The folder of the job's modules in a container."""
_DEFAULT_SHM_MIB = 64
# By these NVIDIA's runtime gives a container devices beside its GPUs: for storage, InfiniBand, NVSwitches, the memory
# of other nodes. Those of MIG it refuses to whom it does not trust, so that an image with them would never start.
_ASKS_FOR_DEVICES = (
    *("NVIDIA_GDS", "NVIDIA_GDRCOPY", "NVIDIA_MOFED", "NVIDIA_NVSWITCH", "NVIDIA_IMEX_CHANNELS"),
    *("NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES"),
)


@dataclass(frozen=True)
class Mount(Message):
    """A file or folder of the host inside a container."""

    source: str
    target: str
    volume: bool = False
    """True for a volume, False for a folder of the allocation's own."""
    read_only: bool = False


@dataclass(frozen=True)
class Plan(Message):
    """One container. Everything that is not here is the same for all of them, and in the engines."""

    name: str
    image: str
    entrypoint: str
    arguments: Tuple[str, ...]
    env: Mapping[str, str]
    labels: Mapping[str, str]
    uid: int
    gids: Tuple[int, ...]
    mounts: Tuple[Mount, ...]
    workdir: str
    cpus: int
    memory_mib: int
    """0 = no limit."""
    shm_mib: int
    pids: int
    network: str
    alias: str = ""
    """The name by which other containers find it in its network."""
    read_only_root: bool = False
    gpus: Injection = field(default_factory=Injection)
    devices: Tuple[str, ...] = ()
    """Device nodes beside those of the GPUs."""
    locks_memory: bool = False
    """True if it may lock as much memory as it has."""
    volumes: Volumes = field(default_factory=Volumes)
    """Volumes, each a mount of its own when the container starts."""
    seccomp: str = ""
    """The file with its filter of system calls; empty = the engine's own."""


def image_of(spec: LaunchSpec, options: Options) -> str:
    """The image that the job runs in."""
    image = spec.image or options.default_image
    if not image:
        raise LaunchError(EndReason.SPEC_REFUSED, "image: this node runs jobs in containers, and the job names none")
    return image


def container_name(agent: str, allocation_id: int, fence: int) -> str:
    """The name of an allocation's container under one fence. Engines know each name once, so nothing starts twice."""
    return "muster-{}-{}-{}".format(agent, allocation_id, fence)


def plan_of(
    spec: LaunchSpec,
    folder: AllocationFolder,
    *,
    agent: str,
    options: Options,
    uid: Optional[int],
    gids: Sequence[int],
    gpus: Injection,
    infiniband: Sequence[str] = (),
    keep_out: Sequence[str] = (),
    seccomp: str = "",
) -> Plan:
    """The container of an allocation; `LaunchError` names the field that this node cannot carry out."""
    if not uid:
        raise LaunchError(EndReason.SPEC_REFUSED, "uid: containers run as members, never as root")
    work, cwd = _working_folders(spec.workdir)
    image = image_of(spec, options)
    network = network_of(spec, options)
    alias = rank_name(spec.fence, spec.rank) if meets_by_names(spec, network) else ""
    return Plan(
        name=container_name(agent, spec.allocation_id, spec.fence),
        image=image,
        entrypoint="/bin/sh",
        arguments=(
            *("-c", SCRIPT, "muster", spec.command),
            "keep" if spec.keep_failed_s > 0 else "",
            rank_name(spec.fence, 0) if alias and spec.rank > 0 else "",
        ),
        env=_environment(spec, cwd, options),
        labels={
            "muster.agent": agent,
            "muster.job": str(spec.job_id),
            "muster.attempt": str(spec.attempt),
            "muster.rank": str(spec.rank),
            "muster.allocation": str(spec.allocation_id),
            "muster.fence": str(spec.fence),
        },
        uid=uid,
        gids=tuple(gids),
        mounts=(
            Mount(folder.work, work),
            Mount(folder.home, _HOME),
            Mount(folder.tmp, "/tmp"),  # noqa: S108 - inside the container, a folder of the allocation
            Mount(folder.out, OWN + "/out"),
            Mount(folder.status, OWN + "/status"),
        ),
        workdir=cwd,
        cpus=spec.cpus,
        memory_mib=spec.memory_mib,
        shm_mib=spec.shm_mib or _DEFAULT_SHM_MIB,
        pids=options.pids,
        network=network,
        alias=alias,
        read_only_root=options.read_only_root,
        gpus=gpus,
        devices=tuple(infiniband),
        locks_memory=bool(infiniband),
        volumes=volumes_of(spec, options, keep_out),
        seccomp=seccomp,
    )


def volumes_of(spec: LaunchSpec, options: Options, keep_out: Sequence[str] = ()) -> Volumes:
    """The volumes that the job asks for, as far as can be told without looking at them; else `LaunchError`."""
    if not spec.mounts:
        return Volumes()
    problem = _mounts_problem(spec, options)
    if problem:
        raise LaunchError(EndReason.SPEC_REFUSED, "mounts: " + problem)
    return Volumes(spec.mounts, spec.mount_roots, options.mount_roots, tuple(keep_out))


def _mounts_problem(spec: LaunchSpec, options: Options) -> str:
    """The reason that a container cannot have these volumes; empty if it can."""
    if not options.mount_roots:
        return "this node mounts no volumes"
    if not spec.mount_roots:
        return "this pool mounts no volumes"
    if len(spec.mounts) > MAX_MOUNTS:
        return "{} volumes: at most {}".format(len(spec.mounts), MAX_MOUNTS)
    taken = [_working_folders(spec.workdir)[0]]
    for mount in spec.mounts:
        if mount.refused:
            return "volume {}: {}".format(mount.name, mount.refused)
        problem = target_problem(mount.target)
        if problem:
            return "{!r:.100}: {}".format(mount.target, problem)
        other = next((path for path in taken if overlap(path, mount.target)), None)
        if other:
            return "{} overlaps {}".format(mount.target, other)
        taken.append(mount.target)
    return ""


def _working_folders(workdir: str) -> Tuple[str, str]:
    """The folder at which `work` is mounted, and the one in which the command starts."""
    if not workdir.startswith("/"):
        return _WORK, "/".join((_WORK, *parts_below_work(workdir)))
    problem = workdir_problem(workdir)
    if problem:
        raise LaunchError(EndReason.SPEC_REFUSED, "workdir {!r:.100}: {}".format(workdir, problem))
    work = absolute_workdir(workdir)
    return work, work


def network_of(spec: LaunchSpec, options: Options) -> str:
    """The container's network: a gang's is the pool's choice, where the node does not allow less.

    A gang has the host's network only where pool or node says `host`.
    """
    if spec.nodes <= 1:
        return options.network
    pool, node = spec.gang_network, options.gang_network
    if "refuse" in (pool, node):
        whose = "this node" if node == "refuse" else "this pool"
        raise LaunchError(EndReason.SPEC_REFUSED, "nodes: {} runs no containers of jobs on several nodes".format(whose))
    if not (pool or node):
        return own_network(spec.pool)
    if pool in ("", "host", node):
        return node or pool
    if node in ("", "host"):
        return pool
    detail = "nodes: gangs of this pool use the network {}, and this node allows {} only".format(pool, node)
    raise LaunchError(EndReason.SPEC_REFUSED, detail)


def _environment(spec: LaunchSpec, cwd: str, options: Options) -> Dict[str, str]:
    # A lone rank talks to itself, and the machine's address does not lead back into its own network.
    alone = {name: "127.0.0.1" for name in MASTERS if spec.nodes <= 1 and name in spec.env}
    network = network_of(spec, options)
    return {
        "HOME": _HOME,
        "TMPDIR": "/tmp",  # noqa: S108 - inside the container
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",  # lines of a Python job arrive when they are printed
        **(gang_environment(spec) if network == "host" else {}),
        **(INTERFACE if meets_by_names(spec, network) else {}),
        **spec.env,
        **alone,
        **(named_environment(spec) if meets_by_names(spec, network) else {}),
        "MUSTER_WORKDIR": cwd,
        "MUSTER_ALLOCATION_DIR": OWN,
        "MUSTER_PROGRESS": "{}/{}".format(_HOME, progress.NAME),
        "MUSTER_METRICS": "{}/{}".format(_HOME, reported.NAME),
        "MUSTER_MODULES": MODULES,
        **dict.fromkeys(_ASKS_FOR_DEVICES, ""),
        **owned_environment(spec.gpu_uuids),
    }
