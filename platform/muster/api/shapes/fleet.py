"""Pools, nodes and GPUs."""

from __future__ import annotations

from rest_framework import serializers

from muster.api.shapes.common import Choice, Flag, Integer, Moment, Number, Shape, Text, values
from muster.fleet.maintenance import LONGEST_REASON
from muster.fleet.models import CheckResult, RunningJobs, StrikeReason
from muster.links.models import LinkState
from scheduler.health import Action, Level
from scheduler.lifecycle import NodeAdmin, NodeHealth

NODE_ACTIONS = ("cordon", "drain", "move-off", "resume")


class GpuJob(Shape):
    """The job that holds a GPU."""

    id = Integer()
    name = Text()
    owner = Text()
    tenant = Text()


class Gpu(Shape):
    """A GPU and its newest reading; `jobs` is empty while nobody holds it, or another tenant's job does."""

    uuid = Text()
    index = Integer()
    node = Text()
    type = Text()
    memory_mib = Integer()
    numa_node = Integer(allow_null=True)
    healthy = Flag(help_text="Whether jobs may have it: so it is unless it has failed.")
    health = Choice(
        choices=values(Level), help_text="With a warning it is a last choice, and given to nobody when it failed."
    )
    health_since = Moment(allow_null=True, help_text="Null for one that has always been well.")
    health_why = Text(allow_null=True)
    utilization = Number(allow_null=True, help_text="Percent.")
    memory_used_mib = Number(allow_null=True)
    temperature_c = Number(allow_null=True)
    power_w = Number(allow_null=True)
    jobs = GpuJob(many=True, help_text="Those that hold it, of the ones that you may see; two may share it.")
    busy = Flag()


class GpuList(Shape):
    """Every GPU, by node and index."""

    results = Gpu(many=True)
    next = Text(allow_null=True)


class NodeLink(Shape):
    """How it stands with the SSH connection to a node; `reason` is for operators."""

    state = Choice(choices=values(LinkState))
    reason = Text(allow_null=True)
    since = Moment()


class Node(Shape):
    """A server and its GPUs."""

    name = Text()
    pool = Text()
    admin = Choice(choices=values(NodeAdmin))
    health = Choice(choices=values(NodeHealth))
    reason = Text(allow_null=True, help_text="Why it is cordoned or draining.")
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
    address = Text(allow_blank=True)
    cpus = Integer()
    cpus_used = Integer()
    memory_mib = Integer()
    memory_used_mib = Integer()
    rack = Text(allow_blank=True)
    labels = serializers.DictField(child=Text())
    last_seen_at = Moment(allow_null=True)
    link = NodeLink(allow_null=True, help_text="Null where the agent calls the platform by itself.")
    strikes = Number(help_text="Failures that it is blamed for, as they count now: half after each half-life.")
    gpus = Gpu(many=True)


class Maintenance(Shape):
    """A time in which a node, or every node of a pool, is to be free of jobs."""

    id = Integer()
    pool = Text()
    node = Text(allow_null=True, help_text="Null: every node of the pool.")
    begins_at = Moment()
    ends_at = Moment()
    running_jobs = Choice(
        choices=values(RunningJobs), help_text="What happens to the jobs that run there when it begins."
    )
    reason = Text()
    begun_at = Moment(allow_null=True)
    created_by = Text()


class MaintenanceList(Shape):
    """What is planned or under way, the next one first."""

    results = Maintenance(many=True)
    next = Text(allow_null=True)


class NewMaintenance(Shape):
    """Maintenance to be planned, of either a node or a pool."""

    node = Text(required=False, max_length=63)
    pool = Text(required=False, max_length=63)
    begins_at = Moment(required=False, help_text="Default: now.")
    ends_at = Moment()
    running_jobs = Choice(
        choices=values(RunningJobs),
        required=False,
        default=RunningJobs.WAIT,
        help_text="`wait` for the jobs that run there to end, or `move` the preemptible ones to other nodes.",
    )
    reason = Text(max_length=LONGEST_REASON)


class CallOff(Shape):
    """Why maintenance is called off."""

    reason = Text(required=False, max_length=500, help_text="For the audit log and the event.")


class NodeStrike(Shape):
    """A failure that a node is blamed for; `job` and `detail` are null for who may not see the job."""

    at = Moment()
    reason = Choice(choices=values(StrikeReason))
    gpu = Integer(allow_null=True, help_text="The index of the GPU that failed.")
    job = Integer(allow_null=True)
    detail = Text(allow_null=True, allow_blank=True)
    forgiven_at = Moment(allow_null=True)


class HealthReport(Shape):
    """What an agent reported of a GPU, or of the node where `gpu` is null; once for as long as it goes on."""

    at = Moment()
    last_at = Moment()
    count = Integer(help_text="How often it was told.")
    gpu = Integer(allow_null=True, help_text="The index of the GPU.")
    kind = Text()
    xid = Integer(allow_null=True)
    level = Choice(choices=values(Level))
    action = Choice(choices=values(Action))
    words = Text(help_text="What it means.")
    detail = Text(allow_null=True, allow_blank=True, help_text="What the agent wrote; null for who is no operator.")
    over_at = Moment(allow_null=True, help_text="Since when it no longer counts.")


class GpuCheck(Shape):
    """The newest check of a GPU between jobs; `detail` is null for who is no operator."""

    gpu = Integer(help_text="The index of the GPU.")
    wanted = Flag(help_text="Whether one is asked for, and no result has come.")
    at = Moment(allow_null=True, help_text="Null if no check of it is over yet.")
    result = Choice(choices=[one for one in values(CheckResult) if one[0]], allow_null=True)
    how = Text(allow_blank=True, help_text="matmul: it did work whose result is known; nvml: it was looked at only.")
    detail = Text(allow_null=True, allow_blank=True)
    duration_s = Number()
    tflops = Number(allow_null=True, help_text="Of products of matrices in 32 bits, or TF32.")
    gb_s = Number(allow_null=True, help_text="Of copies in its memory, each byte read and written.")
    streak = Integer(help_text="How many were passed in a row; below 0, how many failed.")


class NodeJob(Shape):
    """A job that runs on a node and that the caller may see."""

    id = Integer()
    name = Text()
    owner = Text()
    tenant = Text()
    gpus = Integer(help_text="GPUs of the whole job, on all of its nodes.")
    nodes = Integer(help_text="Nodes of the whole job.")
    preemptible = Flag(help_text="Whether moving jobs off the node stops it and queues it again.")


class NodeDetail(Node):
    """A server with its drivers, its jobs, how its GPUs are linked and what it was last blamed for."""

    running_jobs = NodeJob(many=True, help_text="By number; without the jobs that are being stopped already.")
    driver_version = Text(allow_null=True, help_text="Of its GPUs; null without one.")
    toolkit_version = Text(allow_null=True, help_text="Of the NVIDIA Container Toolkit; null without one.")
    disk_mib = Integer(allow_null=True, help_text="Of the disk that its jobs fill; null where its agent does not say.")
    disk_free_mib = Integer(allow_null=True)
    links = serializers.ListField(
        child=serializers.ListField(child=Integer()),
        help_text=(
            "How close each two GPUs are, by index, larger is closer: 10 for each NVLink, else where they meet on "
            "PCIe: 5 at one switch, 4 over several, 3 at a host bridge, 2 on one NUMA node, 1 across sockets. Empty "
            "when nobody knows."
        ),
    )
    last_strikes = NodeStrike(many=True, help_text="The newest first.")
    health_reports = HealthReport(many=True, help_text="What was reported last, the newest first.")
    gpu_checks = GpuCheck(many=True, help_text="By GPU; those that were checked, or are to be.")
    maintenance = Maintenance(many=True, help_text="Planned or under way, the next one first.")


class NodeFilter(Shape):
    """Which nodes are wanted."""

    health = Choice(
        choices=[*values(Level), *values(NodeHealth)],
        required=False,
        help_text="ok, warning, failure: how the worst of its GPUs is. The others: what is known of the node.",
    )


class NodeList(Shape):
    """Every node, by name."""

    results = Node(many=True)
    next = Text(allow_null=True)


class NodeAction(Shape):
    """What an operator does with a node."""

    action = Choice(choices=[(name, name) for name in NODE_ACTIONS])
    reason = Text(
        required=False,
        max_length=500,
        help_text="Shown to everybody who looks at the node. Every action but `resume` needs one.",
    )


class NodeGone(Shape):
    """Why an operator takes a node for gone."""

    reason = Text(max_length=500)


class PoolGpus(Shape):
    """GPUs of one type: `free` ones could be given to a job now."""

    type = Text()
    total = Integer()
    used = Integer()
    free = Integer()


class Pool(Shape):
    """Nodes that are scheduled together."""

    name = Text()
    policy = Text()
    placement = Text()
    guard = Text()
    nodes = Integer()
    gpus = PoolGpus(many=True)


class PoolList(Shape):
    """Every pool, by name."""

    results = Pool(many=True)
    next = Text(allow_null=True)


class Quota(Shape):
    """How many GPUs of one type a virtual cluster may hold, and how many it holds."""

    gpu_type = Text()
    gpus = Integer()
    used = Integer()


class VirtualCluster(Shape):
    """A tenant's share of a pool."""

    name = Text()
    tenant = Text()
    pool = Text()
    quotas = Quota(many=True)
    waiting = Integer()
    active = Integer()


class VirtualClusterList(Shape):
    """The virtual clusters that the caller may see, by name."""

    results = VirtualCluster(many=True)
    next = Text(allow_null=True)
