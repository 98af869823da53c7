"""The launch spec, with which an agent starts one rank of a gang."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.conf import settings

from muster.accounts.models import User
from muster.agents.scripts import batch_environment
from muster.execution.reports import progress
from muster.fleet.models import Node
from muster.jobs.attempt.gangs import Rank
from muster.jobs.attempt.tokens import job_token
from muster.jobs.models import Allocation, GpuClaim, Job, JobGroup
from muster.jobs.spec.mounts import DEFAULT_WORKDIR
from muster.jobs.spec.spec import stop_signal
from muster.jobs.spec.spec_texts import param_text
from muster.jobs.spec.units import parse_duration_s, parse_size_mib
from muster.jobs.submit.volumes import told_to_agents
from muster.outputs.store import MAX_FILES
from muster.tenants.registries import Access, access_to
from nodeagent.protocol.messages import CodeRef, LaunchSpec, OnDisconnect, RegistryLogin
from scheduler.model.lifecycle import Stage


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """Facts of other tables for launch specs, read once for several allocations."""

    owners: dict[int, User]
    gpus: dict[int, list[tuple[int, str]]]
    """The indices and UUIDs of the GPUs of each allocation, in the order of the indices."""
    arrays: dict[int, dict[str, str]]
    """The variables that all members of an array see, by the array."""

    @classmethod
    def of(cls, allocations: Iterable[Allocation]) -> LaunchFacts:
        """The facts for these allocations."""
        attempts = {one.pk: one.attempt for one in allocations}
        owners = {attempt.job.owner_id for attempt in attempts.values()}
        with_gpus = [pk for pk, attempt in attempts.items() if attempt.request.needs_gpus]
        gpus: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
        if with_gpus:
            claims = GpuClaim.objects.filter(allocation_id__in=with_gpus).order_by("gpu__index")
            for pk, index, uuid in claims.values_list("allocation_id", "gpu__index", "gpu__uuid"):
                gpus[pk].append((index, uuid))
        users = User.objects.only("username", "uid", "gids").filter(pk__in=owners)
        jobs = [attempt.job for attempt in attempts.values()]
        groups = {job.group_id for job in jobs if job.group_id is not None and job.array_index is not None}
        arrays = dict(JobGroup.objects.filter(pk__in=groups).values_list("pk", "env")) if groups else {}
        return cls({one.pk: one for one in users}, gpus, arrays)


def launch_spec(node: Node, allocation: Allocation, known: LaunchFacts | None = None) -> LaunchSpec:
    """The launch spec of an allocation that the node has claimed."""
    attempt, job = allocation.attempt, allocation.attempt.job
    known = known or LaunchFacts.of([allocation])
    owner = known.owners[job.owner_id]
    spec, request = job.spec, attempt.request
    is_screening = attempt.stage == Stage.SCREENING
    access = _access(node, allocation)
    gpus = known.gpus.get(allocation.pk, ())
    array = known.arrays.get(job.group_id or 0, {})
    return LaunchSpec(
        allocation_id=allocation.pk,
        job_id=job.pk,
        attempt=attempt.number,
        rank=allocation.rank,
        fence=attempt.pk,
        name=job.name,
        owner=owner.username,
        command=spec["command"],
        uid=owner.uid,
        gids=tuple(owner.gids),
        workdir=spec.get("workdir", DEFAULT_WORKDIR),
        env={
            **torchrun_defaults(allocation),
            **attempt.given,
            **slurm_environment(node, allocation),
            **spec["env"],
            **{name: param_text(value) for name, value in spec.get("params", {}).items()},
            **gang_environment(node, allocation),
            **array_environment(job, array),
            **batch_environment(node, allocation, owner, [index for index, _ in gpus], array),
            **({} if spec.get("batch") is None else {"MUSTER_JOB_TOKEN": job_token(attempt.pk)}),
        },
        gpu_uuids=tuple(uuid for _, uuid in gpus),
        cpus=allocation.cpus,
        memory_mib=allocation.memory_mib,
        time_limit_s=attempt.time_limit_s,
        stop_signal=stop_signal(spec),
        grace_s=attempt.grace_s,
        stop_after_s=attempt.stop_after_s,
        on_disconnect=OnDisconnect.STOP if is_screening else OnDisconnect(spec["on_disconnect"]),
        code=CodeRef(sha256=job.code.sha256, size=job.code.size) if job.code else None,
        image=spec.get("image", ""),
        shm_mib=parse_size_mib(spec["shm"]) if spec.get("shm") else 0,
        nodes=request.nodes,
        log_cap_bytes=node.pool.log_max_bytes_per_job,
        outputs=() if is_screening else tuple(spec.get("outputs", ())),
        outputs_max_bytes=settings.OUTPUTS_MAX_BYTES,
        outputs_max_files=MAX_FILES,
        gang_network=node.pool.gang_network,
        pool=node.pool.name,
        infiniband=node.pool.infiniband,
        check_gpus=node.pool.check_gpus,
        mounts=told_to_agents(spec["mounts"], job.vc, node.pool) if spec.get("mounts") else (),
        mount_roots=node.pool.roots,
        keep_failed_s=_keep_failed_s(node, allocation),
        ask_registry=access.ask,
        registry_login=_login(access),
    )


def _keep_failed_s(node: Node, allocation: Allocation) -> float:
    """For how long what the job runs in is kept if it fails; a screening run keeps nothing."""
    asked = allocation.attempt.job.spec.get("keep_failed")
    if not asked or allocation.attempt.stage != Stage.FULL:
        return 0.0
    return min(parse_duration_s(asked), node.pool.keep_failed_max_s)


def _login(access: Access) -> RegistryLogin | None:
    login = access.login
    return RegistryLogin(login.registry, login.username, login.password) if login else None


def _access(node: Node, allocation: Allocation) -> Access:
    """The tenant's access to the job's image. Credentials that cannot be read are told among the job's events."""
    attempt, job = allocation.attempt, allocation.attempt.job
    if not job.spec.get("image"):
        return Access(ask=False)
    access = access_to(tenant_id=job.tenant_id, image=job.spec["image"])
    if access.problem:
        progress(Rank(node.pk, allocation.pk, attempt.pk), text=access.problem)
    return access


def torchrun_defaults(allocation: Allocation) -> dict[str, str]:
    """Defaults for the options of `torchrun` that a command line leaves out: the gang, and a process for each GPU.

    It does not look at MASTER_ADDR and the like, so without these each node would train for itself, on loopback.
    """
    attempt = allocation.attempt
    request = attempt.request
    return {
        "PET_NNODES": str(request.nodes),
        "PET_NODE_RANK": str(allocation.rank),
        "PET_NPROC_PER_NODE": str(max(1, request.first.gpus)),
        "PET_MASTER_ADDR": attempt.master_addr,
        "PET_MASTER_PORT": str(attempt.master_port),
    }


def array_environment(job: Job, shared: Mapping[str, str]) -> dict[str, str]:
    """The variables of a member of an array: ours, and Slurm's where the job asks for them; none for other jobs."""
    if job.array_index is None:
        return {}
    told = {**shared, "MUSTER_ARRAY_ID": str(job.group_id), "MUSTER_ARRAY_INDEX": str(job.array_index)}
    if job.spec.get("slurm_env"):
        slurm = {"ID": "JOB_ID", "INDEX": "TASK_ID"}
        names = {name: name.removeprefix("MUSTER_ARRAY_") for name in told}
        told |= {f"SLURM_ARRAY_{slurm.get(end, f'TASK_{end}')}": told[name] for name, end in names.items()}
    return told


def _nodes_of(node: Node, allocation: Allocation) -> list[Node]:
    """The nodes of the gang by rank."""
    attempt = allocation.attempt
    if attempt.request.nodes == 1:
        return [node]
    return [one.node for one in attempt.allocations.select_related("node").order_by("rank")]


def gang_environment(node: Node, allocation: Allocation) -> dict[str, str]:
    """The variables by which a rank finds the others: ours and torchrun's.

    RANK is the rank of the node and WORLD_SIZE the number of nodes: that is how many processes the platform starts.
    """
    attempt, job = allocation.attempt, allocation.attempt.job
    request = attempt.request
    addresses = [one.address or one.name for one in _nodes_of(node, allocation)]
    rank, count = str(allocation.rank), str(len(addresses))
    return {
        "MUSTER_JOB_ID": str(job.pk),
        "MUSTER_JOB_NAME": job.name,
        "MUSTER_ATTEMPT": str(attempt.number),
        "MUSTER_STAGE": attempt.stage,
        "MUSTER_RANK": rank,
        "MUSTER_NNODES": count,
        "MUSTER_NODE_ADDRS": ",".join(addresses),
        "MUSTER_NODE": node.name,
        "MUSTER_GPUS": str(request.first.gpus),
        "MUSTER_CPUS": str(allocation.cpus),
        "MASTER_ADDR": attempt.master_addr,
        "MASTER_PORT": str(attempt.master_port),
        "NODE_RANK": rank,
        "RANK": rank,
        "WORLD_SIZE": count,
        "LOCAL_RANK": "0",
    }


def slurm_environment(node: Node, allocation: Allocation) -> dict[str, str]:
    """Slurm's variables where the job asks for them, else none."""
    attempt, job = allocation.attempt, allocation.attempt.job
    if not job.spec.get("slurm_env"):
        return {}
    nodes = _nodes_of(node, allocation)
    rank, count, names = str(allocation.rank), str(len(nodes)), ",".join(one.name for one in nodes)
    variables = {
        "SLURM_JOB_ID": str(job.pk),
        "SLURM_JOBID": str(job.pk),
        "SLURM_JOB_NAME": job.name,
        "SLURM_NNODES": count,
        "SLURM_JOB_NUM_NODES": count,
        "SLURM_NODEID": rank,
        "SLURM_PROCID": rank,
        "SLURM_LOCALID": "0",
        "SLURM_NTASKS": count,
        "SLURM_JOB_NODELIST": names,
        "SLURM_NODELIST": names,
        "SLURMD_NODENAME": node.name,
        "SLURM_GPUS_ON_NODE": str(attempt.request.first.gpus),
        "SLURM_CPUS_ON_NODE": str(allocation.cpus),
    }
    if attempt.number > 1:  # Slurm sets it from the first restart on, and scripts ask whether it is there
        variables["SLURM_RESTART_COUNT"] = str(attempt.number - 1)
    return variables
