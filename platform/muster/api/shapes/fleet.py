"""Pools, nodes and GPUs."""

from __future__ import annotations

from rest_framework import serializers

from muster.api.shapes.common import Choice, Flag, Integer, Moment, Number, Shape, Text, values
from scheduler.lifecycle import NodeAdmin, NodeHealth

NODE_ACTIONS = ("cordon", "drain", "resume")


class GpuJob(Shape):
    """The job that holds a GPU."""

    id = Integer()
    name = Text()
    owner = Text()
    tenant = Text()


class Gpu(Shape):
    """A GPU and its newest reading; `job` is null while nobody or another tenant's job holds it."""

    uuid = Text()
    index = Integer()
    node = Text()
    type = Text()
    memory_mib = Integer()
    healthy = Flag()
    utilization = Number(allow_null=True, help_text="Percent.")
    memory_used_mib = Number(allow_null=True)
    temperature_c = Number(allow_null=True)
    power_w = Number(allow_null=True)
    job = GpuJob(allow_null=True)
    busy = Flag()


class GpuList(Shape):
    """Every GPU, by node and index."""

    results = Gpu(many=True)
    next = Text(allow_null=True)


class Node(Shape):
    """A server and its GPUs."""

    name = Text()
    pool = Text()
    admin = Choice(choices=values(NodeAdmin))
    health = Choice(choices=values(NodeHealth))
    reason = Text(allow_null=True, help_text="Why it is cordoned or draining.")
    address = Text(allow_blank=True)
    cpus = Integer()
    cpus_used = Integer()
    memory_mib = Integer()
    memory_used_mib = Integer()
    rack = Text(allow_blank=True)
    labels = serializers.DictField(child=Text())
    last_seen_at = Moment(allow_null=True)
    gpus = Gpu(many=True)


class NodeList(Shape):
    """Every node, by name."""

    results = Node(many=True)
    next = Text(allow_null=True)


class NodeAction(Shape):
    """What an operator does with a node."""

    action = Choice(choices=[(name, name) for name in NODE_ACTIONS])
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
