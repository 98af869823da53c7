"""The variable MUSTER_BATCH, which tells the supervisor of a batch script about its job, its gang and its nodes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

from django.utils.crypto import salted_hmac

from muster.accounts.models import User
from muster.fleet.models import Node
from muster.jobs.models import Allocation, Attempt, GpuClaim


def batch_environment(
    node: Node, allocation: Allocation, owner: User, gpus: Sequence[int], array: Mapping[str, str]
) -> dict[str, str]:
    """MUSTER_BATCH for the rank of a batch script on a node, and no variable for another job.

    `gpus`: the indices of the rank's GPUs. `array`: the variables of the members of its array.
    """
    attempt, job = allocation.attempt, allocation.attempt.job
    batch = job.spec.get("batch")
    if batch is None:
        return {}
    given = job.spec["env"]
    ranks, gpus_of = _gang(allocation, gpus)
    nodes = [node if one.pk == allocation.pk else one.node for one in ranks]
    told = {
        "batch": batch,
        "job_id": job.pk,
        "array_id": None if job.array_index is None else job.group_id,
        "array_index": job.array_index,
        "array": _array(array) if job.array_index is not None else None,
        "name": job.name,
        "user": owner.username,
        "nodes": [one.name for one in nodes],
        "addresses": [one.address or one.name for one in nodes],
        "rank": allocation.rank,
        "cpus": [one.cpus for one in ranks],
        "memory_mib": [one.memory_mib for one in ranks],
        "gpus": [gpus_of.get(one.pk, []) for one in ranks],
        "restarts": attempt.number - 1,
        "time_limit_s": attempt.time_limit_s,
        "cluster": given.get("SLURM_CLUSTER_NAME", "muster"),
        "partition": given.get("SLURM_JOB_PARTITION", node.pool.name),
        "account": given.get("SLURM_JOB_ACCOUNT", job.spec["vc"]),
        "qos": given.get("SLURM_JOB_QOS", job.spec["priority"]),
        "secret": _secret_of(attempt),
        "port": attempt.master_port,
        "submit_dir": given.get("SLURM_SUBMIT_DIR", batch.get("folder", "")),
        "submit_host": given.get("SLURM_SUBMIT_HOST", ""),
    }
    return {"MUSTER_BATCH": json.dumps(told, separators=(",", ":"))}


def _gang(allocation: Allocation, gpus: Sequence[int]) -> tuple[list[Allocation], Mapping[int, Sequence[int]]]:
    """The ranks in order, and the indices of their GPUs by allocation."""
    attempt = allocation.attempt
    if attempt.request.nodes == 1:
        return [allocation], {allocation.pk: gpus}
    found: defaultdict[int, list[int]] = defaultdict(list)
    if attempt.request.needs_gpus:
        claims = GpuClaim.objects.filter(allocation__attempt=attempt).order_by("gpu__index")
        for pk, index in claims.values_list("allocation_id", "gpu__index"):
            found[pk].append(index)
    return list(attempt.allocations.select_related("node").order_by("rank")), found


def _array(shared: Mapping[str, str]) -> dict[str, int]:
    return {name: int(shared[f"MUSTER_ARRAY_{name.upper()}"]) for name in ("count", "min", "max", "step")}


def _secret_of(attempt: Attempt) -> str:
    """The secret that the ranks of an attempt share."""
    return salted_hmac("muster.batch", str(attempt.pk), algorithm="sha256").hexdigest()
