"""The measured figures with their units, limits and tables."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import models

from muster.samples.models import (
    GpuHour,
    GpuMinute,
    GpuTenSeconds,
    HostHour,
    HostMinute,
    HostTenSeconds,
    RankHour,
    RankMinute,
    RankTenSeconds,
)


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing that is measured; a value outside of the limits is no measurement."""

    name: str
    unit: str
    most: float
    least: float = 0.0


@dataclass(frozen=True, slots=True)
class Resolution:
    """A table of a family: one row for each `seconds` of each thing that is measured."""

    seconds: int
    model: type[models.Model]

    @property
    def table(self) -> str:
        """The table's name."""
        return self.model._meta.db_table

    @property
    def step(self) -> timedelta:
        """The length of a stretch."""
        return timedelta(seconds=self.seconds)

    @property
    def kept_for(self) -> timedelta:
        """The time for which its rows are kept."""
        return settings.SAMPLES_KEPT_FOR[self.seconds]


@dataclass(frozen=True, slots=True)
class Family:
    """Things that are measured alike. `keys` name the thing; the levels begin with the finest."""

    name: str
    keys: tuple[str, ...]
    figures: tuple[Figure, ...]
    levels: tuple[Resolution, ...]


_MAX_MIB = float(1 << 30)
_MAX_BYTES_S = 1e13
_MAX_COUNT = 1e12
# Beyond it a double does not tell a number from the next one.
MAX_PROGRESS = float(1 << 53)

GPU = Family(
    name="gpu",
    keys=("gpu_id", "allocation_id"),
    figures=(
        Figure("utilization", "percent", 100),
        Figure("memory_used_mib", "MiB", _MAX_MIB),
        Figure("power_w", "W", 100_000),
        Figure("temperature_c", "°C", 500, least=-100),
        Figure("sm_clock_mhz", "MHz", 100_000),
        Figure("memory_clock_mhz", "MHz", 100_000),
        Figure("ecc_corrected", "errors", _MAX_COUNT),
        Figure("ecc_uncorrected", "errors", _MAX_COUNT),
        Figure("processes", "processes", 1_000_000),
    ),
    levels=(Resolution(10, GpuTenSeconds), Resolution(60, GpuMinute), Resolution(3600, GpuHour)),
)
RANK = Family(
    name="rank",
    keys=("allocation_id",),
    figures=(
        Figure("cpu_cores", "cores", 100_000),
        Figure("memory_mib", "MiB", _MAX_MIB),
        Figure("page_cache_mib", "MiB", _MAX_MIB),
        Figure("disk_read_bytes_s", "bytes/s", _MAX_BYTES_S),
        Figure("disk_write_bytes_s", "bytes/s", _MAX_BYTES_S),
        Figure("net_receive_bytes_s", "bytes/s", _MAX_BYTES_S),
        Figure("net_transmit_bytes_s", "bytes/s", _MAX_BYTES_S),
        Figure("processes", "processes", 10_000_000),
        Figure("progress_s", "progress/s", MAX_PROGRESS),
    ),
    levels=(Resolution(10, RankTenSeconds), Resolution(60, RankMinute), Resolution(3600, RankHour)),
)
HOST = Family(
    name="host",
    keys=("node_id",),
    figures=(
        Figure("cpu_percent", "percent", 100),
        Figure("memory_used_mib", "MiB", _MAX_MIB),
        Figure("load1", "load", 1_000_000),
    ),
    levels=(Resolution(10, HostTenSeconds), Resolution(60, HostMinute), Resolution(3600, HostHour)),
)
FAMILIES = (GPU, RANK, HOST)
