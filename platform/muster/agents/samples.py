"""Taking over what an agent measured: the newest reading of each GPU, samples of GPUs, jobs and the host, and how far
jobs are.

An agent speaks of its own node only: a GPU that is not the node's, and an allocation that is not held there under this
fence, are passed over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import connection

from muster.execution import reports as port
from muster.fleet.disks import keep_disks
from muster.fleet.models import Gpu, Node
from muster.jobs.attempt.gangs import Rank
from muster.jobs.models import Allocation, GpuClaim
from muster.monitoring.store import told_points
from muster.samples.families import GPU, HOST, RANK
from muster.samples.speeds import keep_speeds
from muster.samples.store import Values, add, sound
from nodeagent.protocol.messages import GpuSample, HostSample, ReportedMetrics, SyncRequest, UsageSample
from scheduler.model.lifecycle import AllocationState

_READING = ("utilization", "memory_used_mib", "power_w", "temperature_c")
_MAX_PROCESSES = (1 << 31) - 1
# One statement: writing the readings as Django objects would be a sixth of the cost of all agents' calls.
_NEWEST = """
INSERT INTO fleet_gpureading (gpu_id, at, utilization, memory_used_mib, power_w, temperature_c, processes)
SELECT told.gpu_id, clock_timestamp(), told.utilization, told.memory_used_mib, told.power_w, told.temperature_c,
       told.processes
FROM unnest(%s::bigint[], %s::float8[], %s::float8[], %s::float8[], %s::float8[], %s::integer[])
    AS told (gpu_id, utilization, memory_used_mib, power_w, temperature_c, processes)
ON CONFLICT (gpu_id) DO UPDATE SET
    at = excluded.at, utilization = excluded.utilization, memory_used_mib = excluded.memory_used_mib,
    power_w = excluded.power_w, temperature_c = excluded.temperature_c, processes = excluded.processes
"""


def store_samples(reports: Mapping[Node, SyncRequest]) -> dict[Node, None]:
    """Store what messages of several nodes brought, and return the nodes."""
    _store_gpus({node: report.gpus for node, report in reports.items() if report.gpus})
    _store_usage({node: report.usage for node, report in reports.items() if report.usage})
    _store_reports({node: report.reported for node, report in reports.items() if report.reported})
    _store_hosts({node: report.host for node, report in reports.items() if report.host is not None})
    return dict.fromkeys(reports)


def _store_gpus(told: Mapping[Node, tuple[GpuSample, ...]]) -> None:
    if not told:
        return
    present = Gpu.objects.filter(node__in=list(told), present=True)
    ids = {(node_id, uuid): pk for node_id, uuid, pk in present.values_list("node_id", "uuid", "pk")}
    # Of a GPU that is named twice the last counts: one statement cannot write a row twice.
    found: dict[int, Values] = {
        ids[node.pk, sample.uuid]: sound(GPU, vars(sample), where=f"{node.name}.gpus[{position}]")
        for node, samples in told.items()
        for position, sample in enumerate(samples)
        if (node.pk, sample.uuid) in ids
    }
    if not found:
        return
    _keep_newest(found)
    holders = _holders(told)
    add(GPU, {(gpu_id, holder): values for gpu_id, values in found.items() for holder in holders.get(gpu_id, [0])})


def _keep_newest(found: Mapping[int, Values]) -> None:
    # In the order of the keys, for the reason that `muster.samples.store.add` has.
    rows = sorted(found.items())
    columns: list[list[Any]] = [[gpu_id for gpu_id, _ in rows]]
    columns += [[values[name] for _, values in rows] for name in _READING]
    columns.append([min(int(values["processes"] or 0), _MAX_PROCESSES) for _, values in rows])
    with connection.cursor() as cursor:
        cursor.execute(_NEWEST, columns)


def _holders(nodes: Iterable[Node]) -> dict[int, list[int]]:
    """The allocations that hold each GPU of the nodes; several where jobs share it."""
    claims = GpuClaim.objects.filter(allocation__node__in=list(nodes), released_at__isnull=True)
    claims = claims.exclude(allocation__state=AllocationState.RELEASED)  # the index of what a node holds knows no other
    found: dict[int, list[int]] = defaultdict(list)
    for gpu_id, allocation_id in claims.values_list("gpu_id", "allocation_id").distinct():
        found[gpu_id].append(allocation_id)
    return found


def _store_usage(told: Mapping[Node, tuple[UsageSample, ...]]) -> None:
    if not told:
        return
    held = Allocation.objects.filter(node__in=list(told)).exclude(state=AllocationState.RELEASED)
    fences = {(node_id, pk): fence for node_id, pk, fence in held.values_list("node_id", "pk", "attempt_id")}
    own = [
        (f"{node.name}.usage[{position}]", sample)
        for node, samples in told.items()
        for position, sample in enumerate(samples)
        if fences.get((node.pk, sample.id)) == sample.fence
    ]
    add(RANK, {(sample.id,): sound(RANK, vars(sample), where=where) for where, sample in own})
    keep_speeds({sample.id: sample.progress for _, sample in own if sample.progress is not None})


def _store_reports(told: Mapping[Node, tuple[ReportedMetrics, ...]]) -> None:
    port.report(
        [
            (Rank(node.pk, one.id, one.fence), told_points(one.points))
            for node, reports in told.items()
            for one in reports
        ]
    )


def _store_hosts(told: Mapping[Node, HostSample]) -> None:
    add(HOST, {(node.pk,): sound(HOST, vars(sample), where=f"{node.name}.host") for node, sample in told.items()})
    disks = {node.pk: (sample.disk_mib, sample.disk_free_mib) for node, sample in told.items()}
    keep_disks({pk: (size, free) for pk, (size, free) in disks.items() if size is not None and free is not None})
