"""Speeds of jobs, from the number that each writes for its agent and that only grows: steps, samples, epochs.

The number of rank 0 speaks for the gang. A speed is measured over a stretch of time in which nothing changed for the
attempt: the same jobs beside it on its GPUs, and no step back. It is known once the stretch is long enough. The speed
of a job that is alone on its GPUs is kept for each type and number of them, whatever becomes of the attempt; not that
of a screening run, in which a job is something else than what it asks to be.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from muster.samples.families import MAX_PROGRESS
from muster.samples.models import Speed, SpeedAlone
from scheduler.model.lifecycle import AllocationState, AttemptState, Stage

# A number that grows in steps is told between two of them, so the first few say little.
MIN_DURATION_S, MIN_STEPS = 60.0, 3
# The speed between two readings says little of how the speed varies.
MIN_READINGS = 5
# After this long, a stretch counts with fewer steps: the job is that slow.
LONG_S = 600.0

# A job that shares no GPU is alone: its GPUs are not looked at.
_READINGS = """
SELECT attempt.id, attempt.job_id, allocation.id, held.gpu_type, held.gpus, clock_timestamp(),
       CASE WHEN (attempt.request->'shares_gpu')::boolean THEN ARRAY(
           SELECT DISTINCT CASE WHEN others.state = %s THEN others.id ELSE -others.id END AS beside
           FROM jobs_allocation mine
           JOIN jobs_gpuclaim claim ON claim.allocation_id = mine.id AND claim.released_at IS NULL
           JOIN jobs_allocation theirs ON theirs.node_id = mine.node_id AND theirs.state <> %s
               AND theirs.attempt_id <> mine.attempt_id
           JOIN jobs_gpuclaim their_claim ON their_claim.allocation_id = theirs.id
               AND their_claim.released_at IS NULL AND their_claim.gpu_id = claim.gpu_id
           JOIN jobs_attempt others ON others.id = theirs.attempt_id
           WHERE mine.attempt_id = attempt.id ORDER BY beside) ELSE ARRAY[]::bigint[] END,
       attempt.stage,
       speed.at, speed.count, speed.beside, speed.since, speed.first, speed.steps, speed.readings, speed.squares
FROM jobs_allocation allocation
JOIN jobs_attempt attempt ON attempt.id = allocation.attempt_id
CROSS JOIN LATERAL (
    SELECT min(gpu.type) AS gpu_type, count(*) AS gpus FROM jobs_allocation one
    JOIN jobs_gpuclaim claim ON claim.allocation_id = one.id AND claim.released_at IS NULL
    JOIN fleet_gpu gpu ON gpu.id = claim.gpu_id WHERE one.attempt_id = attempt.id) AS held
LEFT JOIN samples_speed speed ON speed.attempt_id = attempt.id
WHERE allocation.id = ANY(%s) AND allocation.rank = 0 AND attempt.state = %s AND held.gpus > 0
ORDER BY attempt.id
"""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The progress of an attempt: the newest reading, and the stretch that it is in.

    `beside` are the ids of the attempts on its GPUs, negative for one that starts or stops just now. `since` None: the
    stretch begins with the next growth, for until then the job may be loading what it works on. `squares` is the sum
    over its `readings` of growth² by the seconds since the reading before.
    """

    at: datetime
    count: float
    beside: tuple[int, ...]
    since: datetime | None = None
    first: float = 0.0
    steps: int = 0
    readings: int = 0
    squares: float = 0.0

    @property
    def per_s(self) -> float | None:
        """The speed, in the job's units per second; None until it is known."""
        if self.since is None:
            return None
        lasted_s = (self.at - self.since).total_seconds()
        if lasted_s < MIN_DURATION_S or (self.steps < MIN_STEPS and lasted_s < LONG_S):
            return None
        return (self.count - self.first) / lasted_s

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the speed, by how it varied between readings; None with too few of them.

        The variance of the growth in a time is taken to be in proportion to that time.
        """
        if (per_s := self.per_s) is None or self.since is None or self.readings < MIN_READINGS:
            return None
        lasted_s = (self.at - self.since).total_seconds()
        return math.sqrt(max(0.0, self.squares / lasted_s - per_s * per_s) / (self.readings - 1))


def read_on(before: Stretch | None, *, at: datetime, count: float, beside: tuple[int, ...]) -> Stretch:
    """The stretch after one more reading.

    1. The first number, and one that is smaller than the last, begin nothing yet: the job may have to load its work.
    2. With the next growth a stretch begins.
    3. When a job that shares its GPUs starts or ends, another stretch begins at once: this job was at work before.
    """
    if before is None or count < before.count:
        return Stretch(at, count, beside)
    if at <= before.at:
        return before
    grew = count > before.count
    if before.since is None or before.beside != beside:
        begins = grew or before.since is not None
        return Stretch(at, count, beside, at, count) if begins else Stretch(at, count, beside)
    squares = before.squares + (count - before.count) ** 2 / (at - before.at).total_seconds()
    return Stretch(at, count, beside, before.since, before.first, before.steps + grew, before.readings + 1, squares)


def keep_speeds(counts: Mapping[int, float]) -> None:
    """Take over what the ranks 0 of running attempts have counted, by the ids of their allocations."""
    sound = {allocation_id: count for allocation_id, count in counts.items() if 0 <= count <= MAX_PROGRESS}
    if not sound:
        return
    rows = list(_read_on(sound))
    found = [row[:4] for row in rows]
    Speed.objects.bulk_create(
        [
            Speed(attempt_id=attempt_id, gpu_type=gpu_type, gpus=gpus, **asdict(stretch))
            for attempt_id, _, (gpu_type, gpus), stretch in found
        ],
        update_conflicts=True,
        unique_fields=["attempt"],
        update_fields=["at", "count", "beside", "since", "first", "steps", "readings", "squares"],
    )
    alone = [
        SpeedAlone(
            job_id=job_id, gpu_type=gpu_type, gpus=gpus, at=stretch.at, per_s=stretch.per_s, deviation=stretch.deviation
        )
        for _, job_id, (gpu_type, gpus), stretch, stage in rows
        if stage == Stage.FULL and not stretch.beside and stretch.per_s
    ]
    SpeedAlone.objects.bulk_create(
        alone,
        update_conflicts=True,
        unique_fields=["job", "gpu_type", "gpus"],
        update_fields=["at", "per_s", "deviation"],
    )


def with_progress(attempt_ids: Collection[int]) -> set[int]:
    """Those of the attempts whose count has grown since they started."""
    grown = Speed.objects.filter(attempt__in=attempt_ids, since__isnull=False)
    return set(grown.values_list("attempt_id", flat=True))


def stretch_of(at: datetime | None, count: float, beside: list[int], *progress: Any) -> Stretch | None:
    """The stretch whose columns these are; None where there is no row."""
    return None if at is None else Stretch(at, count, tuple(beside), *progress)


def _read_on(counts: Mapping[int, float]) -> Iterator[tuple[int, int, tuple[str, int], Stretch, str]]:
    """The attempt, the job, what it holds, its stretch and its stage, for each count of one that runs."""
    running = AttemptState.RUNNING.value
    with connection.cursor() as cursor:
        cursor.execute(_READINGS, [running, AllocationState.RELEASED.value, sorted(counts), running])
        rows = cursor.fetchall()
    for attempt_id, job_id, allocation_id, gpu_type, gpus, now, beside, stage, at, *stretch in rows:
        before = stretch_of(at, *stretch)
        after = read_on(before, at=now, count=counts[allocation_id], beside=tuple(beside))
        yield attempt_id, job_id, (gpu_type, gpus), after, stage
