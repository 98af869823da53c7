"""The platform's figures for Prometheus, read from Postgres when asked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.db import connection
from django.db.models import Count, Max, Q
from django.utils import timezone
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from muster.dispatch.models import Cycle
from muster.events.models import Outbox
from muster.fleet.models import Gpu, Node
from muster.jobs.models import GpuClaim, Job
from muster.offers.models import Role
from scheduler.model.lifecycle import JobState, NodeAdmin, OfferState

CYCLE_WINDOW = timedelta(minutes=5)
_QUANTILES = (0.5, 0.95, 1.0)
STANDING = Q(frameworks__offers__state=OfferState.STANDING)


def exposition() -> bytes:
    """All figures in Prometheus's text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Platform())
    return generate_latest(registry)


class _Platform(Collector):
    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield _jobs()
        yield from _gpus()
        yield _nodes()
        yield from _offers()
        yield from _cycles()
        yield _outbox()


def _jobs() -> GaugeMetricFamily:
    family = GaugeMetricFamily("muster_jobs", "Jobs by pool and state.", labels=["pool", "state"])
    rows = Job.objects.values_list("pool__name", "state").annotate(count=Count("id")).order_by()
    counts = {(pool, state): count for pool, state, count in rows}
    for pool in sorted({pool for pool, _ in counts}):
        for state in JobState:
            family.add_metric([pool, state.value], counts.get((pool, state), 0))
    return family


def _gpus() -> Iterator[GaugeMetricFamily]:
    gauges = [
        GaugeMetricFamily("muster_gpus", "GPUs of nodes that are not retired.", labels=["pool", "type"]),
        GaugeMetricFamily("muster_gpus_claimed", "GPUs that jobs hold.", labels=["pool", "type"]),
        GaugeMetricFamily("muster_gpus_unhealthy", "GPUs that are out of order.", labels=["pool", "type"]),
    ]
    held = Q(pk__in=GpuClaim.objects.filter(released_at__isnull=True).values("gpu_id"))
    rows = (
        Gpu.objects.filter(present=True)
        .exclude(node__admin=NodeAdmin.RETIRED)
        .values_list("node__pool__name", "type")
        .annotate(count=Count("id"), held=Count("id", filter=held), broken=Count("id", filter=Q(healthy=False)))
        .order_by("node__pool__name", "type")
    )
    for pool, kind, *counts in rows:
        for gauge, count in zip(gauges, counts, strict=True):
            gauge.add_metric([pool, kind], count)
    yield from gauges


def _nodes() -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "muster_nodes", "Nodes by what is known and wanted of them.", labels=["pool", "health", "admin"]
    )
    rows = Node.objects.values_list("pool__name", "health", "admin").annotate(count=Count("id")).order_by()
    for pool, health, admin, count in sorted(rows):
        family.add_metric([pool, health, admin], count)
    return family


def _offers() -> Iterator[GaugeMetricFamily]:
    standing = GaugeMetricFamily("muster_offers_standing", "Offers that wait for an answer.", labels=["role"])
    offered = GaugeMetricFamily("muster_gpus_offered", "GPUs of offers that wait for an answer.", labels=["role"])
    rows = (
        Role.objects.values_list("name")
        .annotate(
            offers=Count("frameworks__offers", filter=STANDING, distinct=True),
            gpus=Count("frameworks__offers__gpus", filter=STANDING),
        )
        .order_by("name")
    )
    for role, offers, gpus in rows:
        standing.add_metric([role], offers)
        offered.add_metric([role], gpus)
    yield from (standing, offered)


def _cycles() -> Iterator[GaugeMetricFamily]:
    """Gauges over a window, not counters: old cycles are deleted, and a counter must never go back."""
    minutes = int(CYCLE_WINDOW.total_seconds() // 60)
    since = timezone.now() - CYCLE_WINDOW
    duration = GaugeMetricFamily(
        "muster_cycle_duration_seconds", f"Scheduling cycles of {minutes} min.", labels=["pool", "quantile"]
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pool.name, percentile_cont(%s) WITHIN GROUP (ORDER BY snapshot_ms + decide_ms + apply_ms)"
            " FROM dispatch_cycle cycle JOIN fleet_pool pool ON pool.id = cycle.pool_id"
            " WHERE cycle.started_at > %s GROUP BY pool.name ORDER BY pool.name",
            [list(_QUANTILES), since],
        )
        for pool, durations_ms in cursor.fetchall():
            for quantile, duration_ms in zip(_QUANTILES, durations_ms, strict=True):
                duration.add_metric([pool, f"{quantile:g}"], duration_ms / 1000)
    yield duration
    last = GaugeMetricFamily("muster_cycle_last_start_timestamp_seconds", "The newest cycle.", labels=["pool"])
    for pool, at in Cycle.objects.values_list("pool__name").annotate(at=Max("started_at")).order_by("pool__name"):
        last.add_metric([pool], at.timestamp())
    yield last


def _outbox() -> GaugeMetricFamily:
    waiting = Outbox.objects.filter(delivered_at__isnull=True, dropped_at__isnull=True).count()
    return GaugeMetricFamily("muster_outbox_waiting", "Side effects that were not carried out yet.", value=waiting)
