"""Pools, nodes and GPUs."""

from __future__ import annotations

from rest_framework import serializers

from muster.api.shapes.common import Choice, Flag, Integer, Moment, Number, Shape, Text, values
from muster.fleet.maintenance import MAX_REASON_CHARS
from muster.fleet.models import CheckResult, RunningJobs, StrikeReason
from muster.links.models import LinkState
from scheduler.diagnosis.health import Action, HealthLevel
from scheduler.model.lifecycle import NodeAdmin, NodeHealth

NODE_ACTIONS = ("cordon", "drain", "move-off", "resume")


class GpuJob(Shape):
    """The job that holds a GPU."""

    id = Integer(help_text="The id of the job.")
    name = Text(help_text="The name of the job.")
    owner = Text(help_text="The user name of the job's owner.")
    tenant = Text(help_text="The name of the tenant that the job belongs to.")


class Gpu(Shape):
    """A GPU and its newest reading; `jobs` is empty if no job holds it, or only jobs of other tenants."""

    uuid = Text(help_text="The UUID that the driver gives the GPU.")
    index = Integer(help_text="The number of the GPU on its node, from 0.")
    node = Text(help_text="The name of the node.")
    type = Text(help_text="The GPU type, as quotas and job specs name it.")
    memory_mib = Integer(help_text="The memory of the GPU in MiB.")
    numa_node = Integer(allow_null=True, help_text="The NUMA node that the GPU is attached to; null if unknown.")
    healthy = Flag(help_text="Whether jobs may have it: so it is unless it has failed.")
    health = Choice(
        choices=values(HealthLevel), help_text="A GPU with a warning is a last choice; a failed GPU gets no jobs."
    )
    health_since = Moment(allow_null=True, help_text="Null if the GPU was always healthy.")
    health_why = Text(allow_null=True, help_text="Why the GPU has a warning or failed; null if no reason is recorded.")
    utilization = Number(allow_null=True, help_text="Percent.")
    memory_used_mib = Number(allow_null=True, help_text="Memory in use in MiB; null if the newest reading has none.")
    temperature_c = Number(allow_null=True, help_text="Temperature in °C; null if the newest reading has none.")
    power_w = Number(allow_null=True, help_text="Power draw in watts; null if the newest reading has none.")
    jobs = GpuJob(many=True, help_text="Those that hold it, of the ones that you may see; two may share it.")
    busy = Flag(help_text="Whether any job holds the GPU, including jobs that you may not see.")


class GpuList(Shape):
    """Every GPU, by node and index."""

    results = Gpu(many=True, help_text="The GPUs.")
    next = Text(allow_null=True, help_text="Always null: the list comes whole.")


class NodeLink(Shape):
    """How it stands with the SSH connection to a node; `reason` is for operators."""

    state = Choice(
        choices=values(LinkState), help_text="The state of the connection: `up`, being set up, or what failed."
    )
    reason = Text(
        allow_null=True, help_text="Details of the state; null if there are none, or if you are not an operator."
    )
    since = Moment(help_text="When the connection entered this state.")


class Node(Shape):
    """A server and its GPUs."""

    name = Text(help_text="The name of the node.")
    pool = Text(help_text="The name of the pool that the node is in.")
    admin = Choice(
        choices=values(NodeAdmin), help_text="What operators want of the node: only an `active` node gets new jobs."
    )
    health = Choice(
        choices=values(NodeHealth),
        help_text=(
            "What the platform observes: `pending` until an agent joins, `suspect` and `down` when the agent is silent."
        ),
    )
    reason = Text(allow_null=True, help_text="Why it is cordoned or draining.")
    runtimes = serializers.ListField(
        child=Text(),
        help_text="What jobs may have there: `process`, a container engine, or both; empty if no agent has joined.",
    )
    no_containers = Text(allow_null=True, help_text="Why it offers no containers; null if it does.")
    agent_in_container = Flag(help_text="Whether its agent runs in a container: for trying out, without an engine.")
    barred = Text(allow_null=True, help_text="Why nothing new may start there, whatever operators want.")
    single_user = serializers.BooleanField(
        help_text="Whether it runs all jobs as one account; it takes jobs of one tenant then, unless an operator lets "
        "tenants share it."
    )
    single_user_shared = serializers.BooleanField(help_text="Whether tenants share a single-user node.")
    host_network = Text(
        allow_null=True,
        help_text="Which setting gives gangs in containers the host's network; null: none does.",
    )
    address = Text(allow_blank=True, help_text="The address at which other nodes reach the node; empty if unknown.")
    cpus = Integer(help_text="The CPU cores of the node that jobs can use.")
    cpus_used = Integer(help_text="The CPU cores that jobs hold.")
    memory_mib = Integer(help_text="The memory of the node that jobs can use, in MiB.")
    memory_used_mib = Integer(help_text="The memory that jobs hold, in MiB.")
    rack = Text(allow_blank=True, help_text="The rack that the node is in; empty if unknown.")
    labels = serializers.DictField(child=Text(), help_text="The labels of the node, by key.")
    last_seen_at = Moment(
        allow_null=True, help_text="When the platform last heard from the node's agent; null if no agent has joined."
    )
    link = NodeLink(allow_null=True, help_text="Null where the agent calls the platform by itself.")
    strikes = Number(help_text="Failures that it is blamed for, as they count now: half after each half-life.")
    gpus = Gpu(many=True, help_text="The GPUs of the node, by index.")


class Maintenance(Shape):
    """A time in which a node, or every node of a pool, is to be free of jobs."""

    id = Integer(help_text="The id of the maintenance.")
    pool = Text(help_text="The name of the pool.")
    node = Text(allow_null=True, help_text="Null: every node of the pool.")
    begins_at = Moment(help_text="When the maintenance is to begin.")
    ends_at = Moment(help_text="When the nodes take jobs again.")
    running_jobs = Choice(
        choices=values(RunningJobs), help_text="What happens to the jobs that run there when it begins."
    )
    reason = Text(help_text="Why the maintenance takes place.")
    begun_at = Moment(allow_null=True, help_text="When the maintenance began; null if it has not.")
    created_by = Text(help_text="The user name of the operator who planned it.")


class MaintenanceList(Shape):
    """What is planned or under way, the next one first."""

    results = Maintenance(many=True, help_text="The maintenance that is planned or under way.")
    next = Text(allow_null=True, help_text="Always null: the list comes whole.")


class NewMaintenance(Shape):
    """Maintenance to be planned, of either a node or a pool."""

    node = Text(required=False, max_length=63, help_text="The name of the node; give either this or `pool`.")
    pool = Text(
        required=False,
        max_length=63,
        help_text="The name of the pool, for all of its nodes; give either this or `node`.",
    )
    begins_at = Moment(required=False, help_text="Default: now.")
    ends_at = Moment(help_text="When the nodes take jobs again.")
    running_jobs = Choice(
        choices=values(RunningJobs),
        required=False,
        default=RunningJobs.WAIT,
        help_text="`wait` for the jobs that run there to end, or `move` the preemptible ones to other nodes.",
    )
    reason = Text(max_length=MAX_REASON_CHARS, help_text="Why the maintenance takes place.")


class CallOff(Shape):
    """Why maintenance is called off."""

    reason = Text(required=False, max_length=500, help_text="For the audit log and the event.")


class NodeStrike(Shape):
    """A failure that a node is blamed for; `job` and `detail` are null for who may not see the job."""

    at = Moment(help_text="When the failure happened.")
    reason = Choice(choices=values(StrikeReason), help_text="What failed.")
    gpu = Integer(allow_null=True, help_text="The index of the GPU that failed.")
    job = Integer(
        allow_null=True, help_text="The id of the job that failed; null if there is none, or if you may not see it."
    )
    detail = Text(
        allow_null=True, allow_blank=True, help_text="What the agent reported; null if you may not see the job."
    )
    forgiven_at = Moment(allow_null=True, help_text="When an operator cleared the strike; null if it still counts.")


class HealthReport(Shape):
    """What an agent reported of a GPU, or of the node where `gpu` is null; once for as long as it goes on."""

    at = Moment(help_text="When the problem was first reported.")
    last_at = Moment(help_text="When the problem was last reported.")
    count = Integer(help_text="How often it was told.")
    gpu = Integer(allow_null=True, help_text="The index of the GPU.")
    kind = Text(help_text="The kind of problem.")
    xid = Integer(allow_null=True, help_text="The NVIDIA Xid error number; null for other problems.")
    level = Choice(choices=values(HealthLevel), help_text="How serious the problem is.")
    action = Choice(choices=values(Action), help_text="What has to be done about the problem.")
    words = Text(help_text="What it means.")
    detail = Text(allow_null=True, allow_blank=True, help_text="What the agent wrote; null for who is no operator.")
    over_at = Moment(allow_null=True, help_text="Since when it no longer counts.")


class GpuCheck(Shape):
    """The newest check of a GPU between jobs; `detail` is null for who is no operator."""

    gpu = Integer(help_text="The index of the GPU.")
    wanted = Flag(help_text="Whether one is asked for, and no result has come.")
    at = Moment(allow_null=True, help_text="Null if no check of it is over yet.")
    result = Choice(
        choices=[one for one in values(CheckResult) if one[0]],
        allow_null=True,
        help_text=(
            "The result of the last check; null if none has finished. `stopped`: a job needed "
            "the GPU. `unanswered`: the agent did not reply."
        ),
    )
    how = Text(allow_blank=True, help_text="matmul: it did work whose result is known; nvml: it was looked at only.")
    detail = Text(allow_null=True, allow_blank=True, help_text="What the agent wrote; null if you are not an operator.")
    duration_s = Number(help_text="How long the last check took, in seconds.")
    tflops = Number(allow_null=True, help_text="Of products of matrices in 32 bits, or TF32.")
    gb_s = Number(allow_null=True, help_text="Of copies in its memory, each byte read and written.")
    streak = Integer(help_text="How many were passed in a row; below 0, how many failed.")


class NodeJob(Shape):
    """A job that runs on a node and that the caller may see."""

    id = Integer(help_text="The id of the job.")
    name = Text(help_text="The name of the job.")
    owner = Text(help_text="The user name of the job's owner.")
    tenant = Text(help_text="The name of the tenant that the job belongs to.")
    gpus = Integer(help_text="GPUs of the whole job, on all of its nodes.")
    nodes = Integer(help_text="Nodes of the whole job.")
    preemptible = Flag(help_text="Whether moving jobs off the node stops it and queues it again.")


class NodeDetail(Node):
    """A server with its drivers, its jobs, how its GPUs are linked and what it was last blamed for."""

    running_jobs = NodeJob(many=True, help_text="By number; without the jobs that are being stopped already.")
    driver_version = Text(allow_null=True, help_text="Of its GPUs; null without one.")
    toolkit_version = Text(allow_null=True, help_text="Of the NVIDIA Container Toolkit; null without one.")
    disk_mib = Integer(allow_null=True, help_text="Of the disk that its jobs fill; null where its agent does not say.")
    disk_free_mib = Integer(
        allow_null=True, help_text="The free space on that disk in MiB; null if the agent does not report it."
    )
    links = serializers.ListField(
        child=serializers.ListField(child=Integer()),
        help_text=(
            "How close each two GPUs are, by index, larger is closer: 10 for each NVLink, else where they meet on "
            "PCIe: 5 at one switch, 4 over several, 3 at a host bridge, 2 on one NUMA node, 1 across sockets. Empty "
            "if unknown."
        ),
    )
    last_strikes = NodeStrike(many=True, help_text="The newest first.")
    install = Text(
        allow_null=True,
        help_text="Where the agent is in a container, for operators: the two lines that install one on a server.",
    )
    health_reports = HealthReport(many=True, help_text="What was reported last, the newest first.")
    gpu_checks = GpuCheck(many=True, help_text="By GPU; those that were checked, or are to be.")
    maintenance = Maintenance(many=True, help_text="Planned or under way, the next one first.")


class NodeFilter(Shape):
    """Which nodes are wanted."""

    health = Choice(
        choices=[*values(HealthLevel), *values(NodeHealth)],
        required=False,
        help_text="ok, warning, failure: how the worst of its GPUs is. The others: what is known of the node.",
    )


class NodeList(Shape):
    """Every node, by name."""

    results = Node(many=True, help_text="The nodes.")
    next = Text(allow_null=True, help_text="Always null: the list comes whole.")


class NodeAction(Shape):
    """What an operator does with a node."""

    action = Choice(
        choices=[(name, name) for name in NODE_ACTIONS],
        help_text=(
            "`cordon` and `drain` keep new jobs away, `move-off` also moves preemptible jobs "
            "to other nodes, `resume` lets jobs start again."
        ),
    )
    reason = Text(
        required=False,
        max_length=500,
        help_text="Shown to all users at the node. Every action but `resume` needs one.",
    )


class NodeGone(Shape):
    """Why an operator takes a node for gone."""

    reason = Text(max_length=500, help_text="Why the node is declared gone; shown as the reason of its cordon.")


class PoolGpus(Shape):
    """GPUs of one type: `free` ones could be given to a job now."""

    type = Text(help_text="The GPU type.")
    total = Integer(help_text="The GPUs of this type in the pool, except those of retired nodes.")
    used = Integer(help_text="The GPUs that jobs hold.")
    free = Integer(help_text="The GPUs that a job could get now: healthy, not held, and on a node that takes jobs.")


class Pool(Shape):
    """Nodes that are scheduled together."""

    name = Text(help_text="The name of the pool.")
    policy = Text(help_text="The policy, which orders the waiting jobs.")
    placement = Text(help_text="The placement, which picks the nodes and GPUs of a job.")
    admission = Text(help_text="What decides whether a virtual cluster may have the GPUs, such as `quota`.")
    nodes = Integer(help_text="The number of nodes that are not retired.")
    gpus = PoolGpus(many=True, help_text="The GPUs of the pool, by type.")


class PoolList(Shape):
    """Every pool, by name."""

    results = Pool(many=True, help_text="The pools.")
    next = Text(allow_null=True, help_text="Always null: the list comes whole.")
