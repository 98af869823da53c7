"""Messages that claim and start an allocation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping, Optional, Tuple

from nodeagent.protocol.terms import MAX_ID_CHARACTERS, OnDisconnect
from nodeagent.protocol.volumes import VolumeMount
from nodeagent.protocol.wire import Message, text


@dataclass(frozen=True)
class ClaimRequest(Message):
    """The agent takes an allocation; the same boot_id and state_id may ask again and get the same answer."""

    fence: int
    boot_id: str = field(metadata=text(MAX_ID_CHARACTERS))
    epoch: int
    state_id: str = field(metadata=text(MAX_ID_CHARACTERS))


@dataclass(frozen=True)
class CodeRef(Message):
    """A tar.gz that is unpacked into the working directory, from `CODE_PATH`."""

    sha256: str
    size: int


@dataclass(frozen=True)
class RegistryLogin(Message):
    """The tenant's login at the registry of the job's image. It is used for the pull and never written to disk."""

    registry: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class LaunchSpec(Message):
    """Everything needed to start one allocation.

    `command` runs under `/bin/bash -c` (or `/bin/sh -c`). `workdir` is a logical path: the process runtime maps it to
    a folder of the allocation and names it in MUSTER_WORKDIR. `uid` null = that of `--job-user`. An agent
    without root starts jobs as its own user; one that is root never starts a job as root.
    `image` is empty for a runtime without images, `shm_mib` 0 for the runtime's default; `nodes` is the gang's size.
    `outputs` are patterns of paths below the folder in which the command starts: those files are kept when it is over,
    up to `outputs_max_files` and `outputs_max_bytes`. With `ask_registry` the agent asks the image's registry whether
    this tenant may have the image, with `registry_login` or without, even if the node has it: another tenant's job may
    have pulled it. `gang_network` is what the pool says of the containers of a gang (`host`, the name of a network, or
    `refuse`; empty: as the node does, and if that says nothing, a network of the pool's own, which is named after
    `pool`), and `infiniband` whether containers may have the node's InfiniBand devices and
    lock memory for them. `mounts` are volumes in its container, each of which must lie below one of `mount_roots`: what
    the pool allows. The node may allow less. With `check_gpus` the agent looks at the GPUs before it starts anything
    there, and ends with `gpu_check_failed` where one is not fit. `keep_failed_s` above 0: when the command fails, what
    it ran in stays for that time, with its files, its GPUs and its limits, so that the user can inspect it by a shell.
    """

    allocation_id: int
    job_id: int
    attempt: int
    rank: int
    fence: int
    name: str
    owner: str
    command: str
    uid: Optional[int] = None
    gids: Tuple[int, ...] = ()
    workdir: str = "/workspace"
    env: Mapping[str, str] = field(default_factory=dict)
    gpu_uuids: Tuple[str, ...] = ()
    cpus: int = 1
    memory_mib: int = 0
    time_limit_s: Optional[float] = None
    stop_signal: str = "TERM"
    grace_s: float = 30.0
    stop_after_s: float = 600.0
    on_disconnect: OnDisconnect = OnDisconnect.STOP
    code: Optional[CodeRef] = None
    log_cap_bytes: int = 1 << 30
    image: str = ""
    shm_mib: int = 0
    nodes: int = 1
    outputs: Tuple[str, ...] = ()
    outputs_max_bytes: int = 0
    outputs_max_files: int = 0
    ask_registry: bool = False
    registry_login: Optional[RegistryLogin] = None
    gang_network: str = ""
    infiniband: bool = False
    check_gpus: bool = False
    mounts: Tuple[VolumeMount, ...] = ()
    mount_roots: Tuple[str, ...] = ()
    keep_failed_s: float = 0.0
    pool: str = ""
