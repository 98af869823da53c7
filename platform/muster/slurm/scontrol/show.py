"""`scontrol show`: lists of nodes, jobs, nodes and partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from muster.sbatch.site import Partition
from muster.slurm import fields
from muster.slurm.call import Answer, Call, Refused
from muster.slurm.durations import padded_clock
from muster.slurm.hostlist import expand, fold
from muster.slurm.jobids import job_id, with_ids
from muster.slurm.records import Record, known_jobs, records_of
from muster.slurm.sinfo.nodes import NodeLine, Place, places_of

Lines = Sequence[str]
"""A description: lines of words `NAME=VALUE`, as they stand below each other."""


def show(call: Call, words: Sequence[str], *, on_one_line: bool) -> Answer:
    """The description of what the words name."""
    if not words:
        raise Refused("too few arguments for keyword:show")
    entity, equals, name = words[0].partition("=")
    if len(words) > (1 if equals else 2):
        raise Refused("too many arguments for keyword:show")
    name = name if equals else "".join(words[1:])
    lower = entity.lower()
    if lower in {"hostname", "hostnames"}:
        return _hostnames(call, name)
    if lower in {"hostlist", "hostlistsorted"}:
        return _hostlist(call, name, ordered=lower == "hostlist")
    for known, (least, describe) in _ENTITIES.items():
        if len(lower) >= least and known.startswith(lower):
            found = describe(call, name)
            return Answer("".join(_written(lines, on_one_line=on_one_line) for lines in found))
    raise Refused(f"invalid entity:{entity} for keyword:show ")


def _written(lines: Lines, *, on_one_line: bool) -> str:
    if on_one_line:
        return " ".join(lines) + "\n"
    return "\n   ".join(lines) + "\n\n"


def _hostnames(call: Call, text: str) -> Answer:
    text = text or call.environment.get("SLURM_NODELIST", "")
    if not text:
        return Answer(stderr="scontrol: error: host list is empty\n")
    try:
        return Answer("".join(f"{name}\n" for name in expand(text)))
    except ValueError as error:
        raise Refused(f"Invalid hostlist: {text}: {error}") from error


def _hostlist(call: Call, text: str, *, ordered: bool) -> Answer:
    listed = call.input.replace("\n", ",") if text == "-" else text
    if not listed.strip(","):
        raise Refused("invalid encode argument")
    if listed.startswith("/"):
        raise Refused("scontrol: error: the server reads no file of yours: write the names, or - for standard input")
    names = [name.strip() for name in listed.split(",") if name.strip()]
    return Answer(f"{fold(names, ordered=ordered)}\n")


def _jobs(call: Call, text: str) -> list[Lines]:
    jobs = known_jobs(call.user)
    folded = True
    if text:
        try:
            one = job_id(text)
        except ValueError as error:
            raise Refused("scontrol_print_job error: Invalid job id specified") from error
        jobs = with_ids(jobs, [one])
        if not jobs.exists():
            of_array = one.indices is not None and known_jobs(call.user).filter(group=one.number).exists()
            raise Refused(f"Job {text} not found" if of_array else "slurm_load_jobs error: Invalid job id specified")
        folded = one.indices is None
    records = records_of(jobs, folded=folded)
    if not records:
        raise Refused("No jobs in the system", exit_code=0)
    return [_job(call, record) for record in records]


def _job(call: Call, one: Record) -> Lines:
    job, choice, nodes = one.job, one.job.request.first, one.job.request.nodes
    status, signal = fields.exit_code(one)

    def at(moment: datetime | None, *, missing: str = "Unknown") -> str:
        return call.moment(moment, missing=missing)

    array = ""
    if one.array_id is not None:
        throttle = (
            f"ArrayTaskThrottle={job.group.parallel} " if job.group and job.group.parallel < job.group.size else ""
        )
        array = f"ArrayJobId={one.array_id} ArrayTaskId={one.task.strip('[]')} {throttle}"
    limit = "UNLIMITED" if job.time_limit_s is None else padded_clock(job.time_limit_s)
    eligible = None if job.blocked_by or job.held else job.eligible_at
    comment = job.tags.get("comment")
    return [
        f"JobId={fields.raw_id(one)} {array}JobName={job.name}",
        f"UserId={job.owner.username}({job.owner.uid}) GroupId={job.owner.username}({job.owner.uid}) MCS_label=N/A",
        f"Priority={fields.priority(one)} Nice=0 Account={one.account} QOS={one.qos}",
        f"JobState={one.state.name} Reason={one.reason} Dependency={fields.dependency(one)}",
        f"Requeue={int(one.requeues)} Restarts={fields.restarts(one)} BatchFlag={int(bool(one.batch))}"
        f" Reboot=0 ExitCode={status}:{signal}",
        f"RunTime={padded_clock(one.ran_s)} TimeLimit={limit} TimeMin=N/A",
        f"SubmitTime={at(job.submitted_at)} EligibleTime={at(eligible)}",
        f"StartTime={at(fields.start(one))} EndTime={at(one.ended_at)} Deadline={at(job.deadline_at, missing='N/A')}",
        f"Partition={one.partition}",
        f"ReqNodeList={fold(job.request.nodes_in) or '(null)'}"
        f" ExcNodeList={fold(job.request.exclude_nodes) or '(null)'}",
        f"NodeList={fold(one.nodes)}",
        *([f"BatchHost={one.nodes[0]}"] if one.nodes else []),
        f"NumNodes={one.count} NumCPUs={choice.cpus * nodes} NumTasks={one.tasks}"
        f" CPUs/Task={one.batch.get('cpus_per_task') or 1} ReqB:S:C:T=0:0:*:*",
        f"TRES={fields.tres(one)}",
        f"MinCPUsNode={choice.cpus} MinMemoryNode={fields.memory(choice.memory_mib)} MinTmpDiskNode=0",
        "Features=(null) DelayBoot=00:00:00",
        "OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)",
        "Command=(null)",
        f"WorkDir={one.folder}",
        *([f"Comment={comment} "] if comment else []),
        *_files(one),
        *([f"TresPerNode={fields.gres(one)}"] if choice.gpus else []),
    ]


def _files(one: Record) -> list[str]:
    names = {"StdErr": "error", "StdIn": "input", "StdOut": "output"}
    return [f"{name}={one.file(key)}" for name, key in names.items()] if one.batch else []


def _nodes(call: Call, text: str) -> list[Lines]:
    places = places_of(call.user)
    lines = {node.name: node for place in places for node in place.nodes}
    try:
        wanted = expand(text) if text else sorted(lines)
    except ValueError:
        wanted = [text]
    for name in wanted:
        if name not in lines:
            raise Refused(f"Node {name} not found")
    return [_node(lines[name], places) for name in wanted]


def _node(node: NodeLine, places: Iterable[Place]) -> Lines:
    partitions = ",".join(place.partition.name for place in places if node in place.nodes)
    features = ",".join(node.features) or "(null)"
    gres = ",".join(f"gpu:{kind}:{number}" for kind, number in node.gpus) or "(null)"
    gpus = sum(number for _, number in node.gpus)
    held = sum(len(indices) for _, indices in node.gpus_held)
    return [
        f"NodeName={node.name} Arch=x86_64 CoresPerSocket=1 ",
        f"CPUAlloc={node.cpus_held} CPUEfctv={node.cpus} CPUTot={node.cpus}",
        f"AvailableFeatures={features}",
        f"ActiveFeatures={features}",
        f"Gres={gres}",
        f"NodeAddr={node.address} NodeHostName={node.name} Version={node.version}",
        f"RealMemory={node.memory_mib} AllocMem={node.memory_held_mib} Sockets={node.cpus} Boards=1",
        f"State={_state(node)} ThreadsPerCore=1 TmpDisk={node.disk_mib} Weight=1 Owner=N/A MCS_label=N/A",
        f"Partitions={partitions} ",
        f"CfgTRES={_tres(node.cpus, node.memory_mib, gpus)}",
        f"AllocTRES={_tres(node.cpus_held, node.memory_held_mib, held, billing=False)}",
        *([f"Reason={node.reason}"] if node.reason else []),
    ]


def _state(node: NodeLine) -> str:
    parts = [node.state.base.value.upper(), *(["DRAIN"] if node.state.drain else [])]
    parts += ["PLANNED"] if node.state.planned else []
    return "+".join(parts) + ("*" if node.state.silent else "")


def _tres(cpus: int, memory_mib: int, gpus: int, *, nodes: int = 0, billing: bool = True) -> str:
    parts = [f"cpu={cpus}"] if cpus else []
    parts += [f"mem={fields.memory(memory_mib)}"] if memory_mib else []
    parts += [f"node={nodes}"] if nodes else []
    parts += [f"billing={cpus}"] if billing and cpus else []
    return ",".join([*parts, *([f"gres/gpu={gpus}"] if gpus else [])])


def _partitions(call: Call, text: str) -> list[Lines]:
    places = places_of(call.user)
    found = [place for place in places if not text or place.partition.name == text]
    if text and not found:
        raise Refused(f"Partition {text} not found")
    return [_partition(place) for place in found]


def _partition(place: Place) -> Lines:
    partition, nodes = place.partition, place.nodes
    cpus = sum(node.cpus for node in nodes)
    total = _tres(
        cpus,
        sum(node.memory_mib for node in nodes),
        sum(number for node in nodes for _, number in node.gpus),
        nodes=len(nodes),
    )
    return [
        f"PartitionName={partition.name}",
        "AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL",
        f"AllocNodes=ALL Default={'YES' if place.default else 'NO'} QoS=N/A",
        f"DefaultTime={_limit(partition.time_min, 'NONE')} DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO",
        f"MaxNodes={partition.max_nodes or 'UNLIMITED'} MaxTime={_limit(partition.max_time_min, 'UNLIMITED')}"
        " MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED",
        f"Nodes={fold(node.name for node in nodes)}",
        "PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO",
        "OverTimeLimit=NONE PreemptMode=OFF",
        f"State=UP TotalCPUs={cpus} TotalNodes={len(nodes)} SelectTypeParameters=NONE",
        "JobDefaults=(null)",
        _default_memory(partition),
        f"TRES={total}",
    ]


def _default_memory(partition: Partition) -> str:
    mib = partition.memory_per_cpu_mib
    default = f"DefMemPerCPU={mib}" if mib else "DefMemPerNode=UNLIMITED"
    return f"{default} MaxMemPerNode=UNLIMITED"


def _limit(minutes: int | None, without: str) -> str:
    return without if minutes is None else padded_clock(minutes * 60)


_ENTITIES: Mapping[str, tuple[int, Callable[[Call, str], list[Lines]]]] = {
    "jobid": (3, _jobs),
    "jobs": (3, _jobs),
    "nodes": (3, _nodes),
    "partitions": (3, _partitions),
}
