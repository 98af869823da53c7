"""Keys of the job files of Slurm, Kubernetes, Docker Compose, Determined and dstack, and what a spec has instead."""

from __future__ import annotations

import re
from collections.abc import Mapping

# What a spec has instead, as an example of ours, and what to know about it.
USE: Mapping[str, tuple[str, str]] = {
    "gpu gpu_count gpus_per_node gpus_per_task gres num_gpus ngpus accelerator accelerators slots slots_per_trial": (
        "gpus: A100:4",
        "on each node",
    ),
    "num_nodes nnodes node_count replicas parallelism workers num_workers": ("nodes: 2", "one rank on each"),
    "ntasks ntasks_per_node tasks tasks_per_node num_tasks nproc_per_node processes": (
        "command: torchrun train.py",
        "it runs once on each node and starts as many processes as it needs",
    ),
    "cpu cpu_count cpus_per_task num_cpus vcpus": ("cpus: 8", "on each node"),
    "mem mem_per_node mem_limit memory_gb memory_limit ram": ("memory: 64GiB", "on each node"),
    "resources requests limits": ("{gpus: 2, cpus: 8, memory: 64GiB}", "as keys of the spec itself, not below another"),
    "shm_size shared_memory ipc": ("shm: 16GiB", "in a container"),
    "partition queue pool resource_pool cluster namespace account project fleet fleets": (
        "vc: vision",
        "the name of a virtual cluster",
    ),
    "qos priority_class priority_class_name nice": ("priority: low", "or normal, high, urgent"),
    "spot spot_policy interruptible preemptable": ("class: opportunistic", "which uses idle GPUs beyond the quota"),
    "restart restart_policy max_restarts max_retries retries requeue backoff_limit": (
        "retry: {max: 3, on: [failed]}",
        "or on: [infrastructure, node_lost], the default",
    ),
    "timeout time_limit walltime max_duration active_deadline_seconds": ("time: 24h", "the limit of its run time"),
    "args cmd commands entrypoint run script wrap": (
        "command: python train.py",
        "a shell command; several lines follow `command: |`",
    ),
    "container container_image docker docker_image": ("image: pytorch/pytorch:2.9", "on nodes that run containers"),
    "chdir cwd work_dir working_dir": ("workdir: src", "below the job's own folder"),
    "env_file env_vars environment envs variables": ("env: {LR: 0.1}", "one name and value for each variable"),
    "volume volumes bind_mounts mount": ("mounts: [data:/data:ro]", "of volumes that an operator has set up"),
    "hyperparameters parameters": ("params: {lr: 0.1}", "which the command sees as environment variables"),
    "nodelist node_list node_name hostlist": ("nodes_in: [gpu01, gpu02]", "the names of nodes"),
    "node_selector affinity constraint": (
        "node_labels: {network: infiniband}",
        "labels of nodes, by name; a GPU type stands in gpus",
    ),
    "exclude exclude_node exclude_hosts": ("exclude_nodes: [gpu07]", "the names of nodes"),
    "after_any after_ok dependencies dependency depends_on needs chain": (
        "after: [1042:ok]",
        "jobs or groups by their numbers, and what to wait for: ok, any, failed, started or corr",
    ),
    "begin_at start_after start_at start_time": ("begin: 2026-12-01T08:00Z", "or 2h from its submission on"),
    "job_name title": ("name: resnet", "the job's name"),
    "annotations labels": ("tags: {project: seg}", "names and values to filter by"),
    "mail_type mail_user notifications": ("notify: [ended, failed]", "by mail and webhook, to you"),
    "artifacts output output_dir results": (
        "outputs: [results/**]",
        "files of the working folder to keep; the log is always kept",
    ),
}
# What does not exist, and what to do.
MISSING: Mapping[str, str] = {
    "job_array task_array array_size": "write array: 0-9, which makes a job for each index",
    "expose port ports": "ports of a job cannot be reached through the platform yet",
    "secret secrets": (
        "secrets do not exist yet; env is no place for one: it is stored with the spec, and members of the tenant can "
        "read it"
    ),
    "cron schedule": "a job runs once; begin: 2026-12-01T08:00Z says when it may start, and cron can submit it",
    "reservation": "reservations do not exist yet; an operator can set a quota aside in a virtual cluster",
    "api_version kind type": "a spec needs no kind: it is a job, or many with sweep or array; leave it out",
    "exclusive": "a job has its GPUs to itself unless it says share: pack; leave it out",
    "code.git": (
        "code from a git repository is not supported yet; clone it and write its folder for the muster command, such "
        "as code: .; over the API, upload an archive"
    ),
    "checkpoint.path checkpoint.interval": (
        "the job itself decides where and how often it saves; checkpoint: {signal: TERM, grace: 2m} says how it is "
        "asked to save and stop"
    ),
}


def _plain(key: str) -> str:
    """`restartPolicy`, `restart-policy` and `restart_policy` are one key."""
    return re.sub(r"[-_]", "", key).lower()


_ANSWERS = {
    _plain(key): answer
    for keys, answer in (
        *((keys, f"write {example} ({about})") for keys, (example, about) in USE.items()),
        *MISSING.items(),
    )
    for key in keys.split()
}


def answer_for(path: str) -> str | None:
    """The key to write instead of another system's key at this path of a spec; None if no system is known for it."""
    return _ANSWERS.get(_plain(path))
