"""The environments of a batch script, of its steps and of their tasks: the variables that Slurm sets."""

from __future__ import annotations

import glob
import json
import os
import pwd
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nodeagent.jobside.slurm.hostlists import fold
from nodeagent.jobside.slurm.layout import Share, runs
from nodeagent.jobside.slurm.patterns import Facts

SUBMITTED = ".muster-environment"
"""The file with the environment from which the script was submitted; it lies in the work folder."""
SOCKET = "MUSTER_STEPS"
"""The variable that names the socket at which `srun` asks for steps."""
SECRETS = {"MUSTER_BATCH", "MUSTER_JOB_TOKEN"}
"""Variables that go over no network: each node has its own."""
_GANG = {
    *("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "NODE_RANK", "MUSTER_BATCH"),
    *("PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
}
"""Variables that the platform gives to gangs, and Slurm does not; a script sets them itself."""
_KEPT = ("SLURM_", "MUSTER_", "CUDA_", "NVIDIA_", "GLOO_")
_DEVICES = ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
_CONTAINER = "/muster"


@dataclass(frozen=True)
class Job:
    """The job as the platform has told it to one node."""

    told: Mapping[str, Any]
    environment: Mapping[str, str]
    """The environment with which the agent started the job on this node."""

    @classmethod
    def here(cls) -> Job:
        """The job of this process."""
        return cls(json.loads(os.environ["MUSTER_BATCH"]), dict(os.environ))

    @property
    def batch(self) -> Mapping[str, Any]:
        """The key `batch` of its spec."""
        found: Mapping[str, Any] = self.told.get("batch") or {}
        return found

    @property
    def id(self) -> str:
        """Its number."""
        return str(self.told["job_id"])

    @property
    def rank(self) -> int:
        """The rank of this node."""
        return int(self.told["rank"])

    @property
    def nodes(self) -> Sequence[str]:
        """The names of its nodes by rank."""
        found: Sequence[str] = self.told["nodes"]
        return found

    @property
    def cpus(self) -> Sequence[int]:
        """The CPUs of each node for steps: where tasks are spread unevenly, those that its tasks need."""
        each: Sequence[int] = self.told["cpus"]
        tasks: Sequence[int] = self.batch.get("tasks_per_node") or [1]
        if len(set(tasks)) == 1 or len(tasks) != len(each):
            return each
        return [max(1, cpus * count // max(tasks)) for cpus, count in zip(each, tasks)]

    @property
    def work(self) -> str:
        """The folder in which the agent started it."""
        return self.environment.get("MUSTER_WORKDIR") or os.getcwd()

    @property
    def folder(self) -> str:
        """The folder in which the script runs."""
        return str(self.batch.get("folder") or self.work)

    @property
    def root(self) -> str:
        """The folder of the allocation on this node, in which its paths lie that no other node has."""
        return self.environment.get("MUSTER_ALLOCATION_DIR", "")

    def gpu_names(self, rank: int, places: Sequence[int]) -> list[str]:
        """The names of GPUs in Slurm's variables: their numbers on the node."""
        known = (self.told.get("gpus") or [])[rank : rank + 1] or [[]]
        return [str(known[0][place]) if place < len(known[0]) else str(place) for place in places]

    def gpu_devices(self, places: Sequence[int]) -> list[str]:
        """The names of GPUs of this node for CUDA: numbers, or UUIDs where numbers name no part of a GPU."""
        uuids = [name for name in self.environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
        known = (self.told.get("gpus") or [[]] * len(self.nodes))[self.rank]
        if len(set(known)) < len(uuids) or any(name.startswith("MIG-") for name in uuids):
            return [uuids[place] for place in places if place < len(uuids)]
        if self.root == _CONTAINER:  # it has no other devices, and CUDA counts those that are there
            return [str(place) for place in places]
        return self.gpu_names(self.rank, places)

    def facts(self) -> Facts:
        """The values of the patterns in names of its files."""
        array = {}
        if self.told.get("array_index") is not None:
            array = {"array_id": str(self.told["array_id"]), "array_index": self.told["array_index"]}
        return Facts(self.id, str(self.told["name"]), str(self.told["user"]), self.nodes[self.rank], **array)


def script_environment(job: Job) -> dict[str, str]:
    """The environment of the script."""
    environment = _base(job)
    if not job.told["gpus"][job.rank]:
        environment = {**without_gpus(environment), **hidden_gpus()}
        environment.pop("SLURM_JOB_GPUS", None)
    environment.update(_slurm(job))
    if job.environment.get("MUSTER_COMMANDS"):
        environment["PATH"] = "{}:{}".format(job.environment["MUSTER_COMMANDS"], environment.get("PATH", os.defpath))
    return environment


def _base(job: Job) -> dict[str, str]:
    """The submitter's environment where the job runs in its folder, else one as of a login on the node."""
    gone = _GANG if job.told["gpus"][job.rank] else {*_GANG, *_DEVICES}
    own = {name: value for name, value in job.environment.items() if name not in gone}
    submitted = _submitted(job)
    if submitted is None and not job.batch.get("folder"):
        return {**_login(job, own), **own}
    kept = {name: value for name, value in own.items() if name.startswith(_KEPT)}
    if job.batch.get("export") == "NONE":
        return {**own, **_login(job, own), **(submitted or {}), **kept}
    return {**own, **(submitted or _login(job, own)), **kept}


def _submitted(job: Job) -> dict[str, str] | None:
    """The environment from which the script was submitted; None where it is not known here."""
    path = os.path.join(job.work, SUBMITTED)
    try:
        with open(path, "rb") as file:
            pairs = [os.fsdecode(pair).partition("=") for pair in file.read().split(b"\0") if pair]
        os.unlink(path)
    except FileNotFoundError:
        return None
    return {name: value for name, _, value in pairs if name and name not in SECRETS}


def _login(job: Job, own: Mapping[str, str]) -> dict[str, str]:
    """The variables of a login on the node."""
    try:
        entry = pwd.getpwuid(os.getuid())
        found = {"USER": entry.pw_name, "LOGNAME": entry.pw_name, "SHELL": entry.pw_shell or "/bin/sh"}
        if os.path.isdir(entry.pw_dir):
            found["HOME"] = entry.pw_dir
    except KeyError:  # a container, where the user has a number only
        found = {"USER": str(job.told["user"]), "LOGNAME": str(job.told["user"]), "SHELL": "/bin/sh"}
    return {**found, "PATH": own.get("PATH", os.defpath)}


def _slurm(job: Job) -> dict[str, str]:
    """The variables that depend on where the job runs."""
    told, nodes = job.told, job.nodes
    listed = fold(nodes)
    found = {
        "ENVIRONMENT": "BATCH",
        "HOSTNAME": nodes[job.rank],
        "SLURMD_NODENAME": nodes[job.rank],
        "SLURM_CLUSTER_NAME": told.get("cluster") or "muster",
        "SLURM_CPUS_ON_NODE": job.cpus[job.rank],
        "SLURM_GTIDS": "0",
        "SLURM_JOBID": job.id,
        "SLURM_JOB_ACCOUNT": told.get("account"),
        "SLURM_JOB_CPUS_PER_NODE": runs(job.cpus),
        "SLURM_JOB_GID": os.getgid(),
        "SLURM_JOB_ID": job.id,
        "SLURM_JOB_NAME": told["name"],
        "SLURM_JOB_NODELIST": listed,
        "SLURM_JOB_NUM_NODES": len(nodes),
        "SLURM_JOB_PARTITION": told.get("partition"),
        "SLURM_JOB_QOS": told.get("qos"),
        "SLURM_JOB_UID": os.getuid(),
        "SLURM_JOB_USER": told["user"],
        "SLURM_LOCALID": "0",
        "SLURM_NNODES": len(nodes),
        "SLURM_NODEID": "0",
        "SLURM_NODELIST": listed,
        "SLURM_NODE_ALIASES": "(null)",
        "SLURM_PRIO_PROCESS": "0",
        "SLURM_PROCID": "0",
        "SLURM_SUBMIT_DIR": told.get("submit_dir") or job.work,
        "SLURM_SUBMIT_HOST": told.get("submit_host") or socket.gethostname().partition(".")[0],
        "SLURM_TASKS_PER_NODE": runs(job.batch.get("tasks_per_node") or [1] * len(nodes)),
        "SLURM_TOPOLOGY_ADDR": nodes[job.rank],
        "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
    }
    array = told.get("array")
    if array:
        found.update(SLURM_ARRAY_JOB_ID=told["array_id"], SLURM_ARRAY_TASK_ID=told["array_index"])
        found.update({"SLURM_ARRAY_TASK_" + name.upper(): array[name] for name in ("count", "min", "max", "step")})
    if told.get("restarts"):
        found["SLURM_RESTART_COUNT"] = told["restarts"]
    texts = {name: str(value) for name, value in found.items() if value not in (None, "")}
    places = range(len(told["gpus"][job.rank]))
    if not places:
        return texts
    return {**texts, **seen_gpus(job, places, len(places)), "SLURM_JOB_GPUS": ",".join(job.gpu_names(job.rank, places))}


def hidden_gpus() -> dict[str, str]:
    """The variables by which a program without GPUs keeps off those of the node; Slurm sets none where it has none."""
    return {"CUDA_VISIBLE_DEVICES": ""} if glob.glob("/dev/nvidia[0-9]*") else {}


def seen_gpus(job: Job, places: Sequence[int], on_node: int) -> dict[str, str]:
    """The variables of a program that sees these GPUs, of `on_node` that its step has on the node."""
    devices = ",".join(job.gpu_devices(places))
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if devices.replace(",", "").isdigit() else {}
    return {**dict.fromkeys(_DEVICES, devices), **order, "SLURM_GPUS_ON_NODE": str(on_node)}


def without_gpus(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program that has no GPUs, or other ones than this says."""
    gone = {*_DEVICES, "CUDA_DEVICE_ORDER", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE"}
    return {name: value for name, value in environment.items() if name not in gone}


def moved(text: str, there: str, here: str) -> str:
    """The text with the paths of an allocation on this node in the place of those on another."""
    return text.replace(there, here) if there and here else text


def node_environment(job: Job, sent: Mapping[str, str], first: Mapping[str, str]) -> dict[str, str]:
    """The environment that `srun` has sent, on this node.

    `first`: the environment with which the agent started the job on the first node. Values that came from there
    become those of this node.
    """
    there = first.get("MUSTER_ALLOCATION_DIR", "")
    own = job.environment
    return {
        name: own[name]
        if name in own and (name in SECRETS or value == first.get(name))
        else moved(value, there, job.root)
        for name, value in sent.items()
    }


def task_environment(job: Job, step: Mapping[str, Any], share: Share, index: int) -> dict[str, str]:
    """The variables of a task, the `index`th of its node; `step` is what `srun` has sent of the step."""
    gpus = list(share.gpus)
    bind = share.gpus_per_task
    if bind:
        gpus = gpus[index * bind : (index + 1) * bind] or gpus[:1]
    elif step.get("tasks_per_gpu"):
        place = index // int(step["tasks_per_gpu"])
        gpus = gpus[place % len(gpus) :][:1] if gpus else []
    found = {
        "SLURMD_NODENAME": job.nodes[job.rank],
        "SLURM_CPUS_ON_NODE": str(share.cpus),
        "SLURM_GTIDS": ",".join(map(str, share.tasks)),
        "SLURM_LOCALID": str(index),
        "SLURM_NODEID": str(step["node_index"]),
        "SLURM_PROCID": str(share.tasks[index]),
        "SLURM_TOPOLOGY_ADDR": job.nodes[job.rank],
        "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
    }
    if not gpus:
        return {**found, **hidden_gpus()}
    found.update(seen_gpus(job, gpus, len(share.gpus)))
    return {**found, "SLURM_STEP_GPUS": ",".join(job.gpu_names(job.rank, gpus))}
