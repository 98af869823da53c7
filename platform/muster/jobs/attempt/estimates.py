"""The expected run times of jobs; `scheduler.predict` computes them from what is stored here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from django.db import transaction
from django.db.models import F, Value
from django.db.models.functions import Least

from muster.common.clock import utc_now
from muster.common.statements import Statement
from muster.jobs.models import Attempt, Job
from muster.jobs.spec.requests import gpu_type_of
from muster.jobs.spec.units import parse_duration_s
from muster_client.answers.jobs import RunTimeEstimate
from scheduler.model.lifecycle import ATTEMPT_LIVE, JobState, Stage
from scheduler.predict.estimate import HISTORY_JOBS, Estimate, Source, doubled, estimate

# What jobs alike have in common: owner, name, GPU type, GPUs on each node, nodes.
Kind = tuple[int, str, str, int, int]

# A job that saves no checkpoints began anew in its last attempt, so that only that one counts. An elastic job counts
# with the GPU-seconds of all its sizes, over the GPUs that it asked for.
_HISTORY = Statement("""
SELECT kind.owner_id, kind.name, kind.gpu_type, kind.gpus, kind.nodes, past.took_s
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::int[], %s::int[])
     AS kind (owner_id, name, gpu_type, gpus, nodes)
CROSS JOIN LATERAL (
    SELECT job.ended_at, CASE
        WHEN jsonb_typeof(job.request->'elastic') = 'object' THEN job.attained_gpu_s / (job.gpus * job.nodes)
        WHEN job.checkpoints THEN job.ran_s ELSE (
        SELECT extract(epoch FROM attempt.ended_at - attempt.placed_at)::float8 FROM jobs_attempt attempt
        WHERE attempt.job_id = job.id AND attempt.stage = 'full' ORDER BY attempt.number DESC LIMIT 1) END AS took_s
    FROM jobs_job job
    WHERE job.owner_id = kind.owner_id AND job.name = kind.name AND job.gpu_type = kind.gpu_type
      AND job.gpus = kind.gpus AND job.nodes = kind.nodes AND job.ended_at IS NOT NULL AND job.ran_s > 0
      AND job.reason <> 'stopped_early'
    ORDER BY job.ended_at DESC LIMIT %s
) past
ORDER BY past.ended_at DESC
""")


def estimate_jobs(jobs: Iterable[Job]) -> None:
    """Set the expected run time of each job that is to be stored, and its source; one query for all of them."""
    jobs = list(jobs)
    took_s = _history({_kind(job) for job in jobs})
    for job in jobs:
        text = job.spec.get("expected")
        user_s = parse_duration_s(text) if text else None
        found = estimate(user_s=user_s, took_s=took_s[_kind(job)], limit_s=job.time_limit_s)
        job.expected_s, job.expected_source = (None, "") if found is None else (found.expected_s, found.source)


def learn_from(job: Job) -> None:
    """Estimate the waiting jobs alike anew once the end of this one has been committed."""
    kind = _kind(job)
    # Not in this transaction, which holds the locks of an attempt by now: jobs are locked before attempts.
    transaction.on_commit(lambda: estimate_waiting(kind), robust=True)


# Asked after the end of every job, and mostly there are none.
_ANY_ALIKE = Statement("""
SELECT EXISTS (
    SELECT FROM jobs_job WHERE owner_id = %s AND name = %s AND gpu_type = %s AND gpus = %s AND nodes = %s
    AND ended_at IS NULL AND state = %s AND expected_source <> ALL (%s))
""")
_KNOWN_BETTER = [Source.HISTORY, Source.SWEEP]


def estimate_waiting(kind: Kind) -> None:
    """Estimate those waiting jobs anew that have no history yet, or an estimate that the history contradicts."""
    if not _ANY_ALIKE.rows(*kind, JobState.QUEUED, _KNOWN_BETTER)[0][0]:
        return
    owner_id, name, gpu_type, gpus, nodes = kind
    alike = Job.objects.filter(
        owner=owner_id, name=name, gpu_type=gpu_type, gpus=gpus, nodes=nodes, ended_at=None, state=JobState.QUEUED
    ).exclude(expected_source__in=_KNOWN_BETTER)
    took_s = _history({kind})[kind]
    with transaction.atomic():
        by_estimate: defaultdict[Estimate, list[int]] = defaultdict(list)
        rows = alike.order_by("pk").select_for_update(no_key=True, skip_locked=True)
        for pk, expected_s, source, limit_s in rows.values_list("pk", "expected_s", "expected_source", "time_limit_s"):
            user_s = expected_s if source == Source.USER else None
            found = estimate(user_s=user_s, took_s=took_s, limit_s=limit_s)
            if found is not None and found.source is Source.HISTORY:
                by_estimate[found].append(pk)
        for found, pks in by_estimate.items():
            Job.objects.filter(pk__in=pks).update(expected_s=found.expected_s, expected_source=found.source)


def estimate_members(job_ids: Iterable[int], expected_s: float) -> None:
    """Set the expected run time of members of a group, as the group knows it better than their history."""
    jobs = Job.objects.filter(pk__in=list(job_ids), ended_at=None)
    jobs.update(
        expected_s=Least(Value(expected_s), F("time_limit_s")),
        expected_p10_s=None,
        expected_p90_s=None,
        expected_source=Source.SWEEP,
    )


def current_estimate(job: Job) -> RunTimeEstimate | None:
    """The expected run time as it is now, s, and its source: doubled where the job has run for longer."""
    if job.expected_s is None:
        return None
    ran_s = job.ran_s if job.checkpoints else 0.0
    if job.state == JobState.ACTIVE and job.stage == Stage.FULL:
        placed = Attempt.objects.filter(job=job, state__in=ATTEMPT_LIVE).values_list("placed_at", flat=True).first()
        ran_s += (utc_now() - placed).total_seconds() if placed is not None else 0.0
    elif job.state != JobState.QUEUED:
        ran_s = 0.0
    longer_s = doubled(job.expected_s, ran_s=ran_s, limit_s=job.time_limit_s)
    source = Source(job.expected_source) if longer_s == job.expected_s else Source.DOUBLED
    p10_s, p90_s = (None if one is None else round(one, 1) for one in (job.expected_p10_s, job.expected_p90_s))
    return {"expected_s": round(longer_s, 1), "p10_s": p10_s, "p90_s": p90_s, "source": source.value}


def _kind(job: Job) -> Kind:
    request = job.request
    return (job.owner_id, job.name, gpu_type_of(request), request.first.gpus, request.nodes)


def _history(kinds: Iterable[Kind]) -> Mapping[Kind, Sequence[float]]:
    """The run times of the last ended jobs of each kind, s, the last one first."""
    took_s: defaultdict[Kind, list[float]] = defaultdict(list)
    columns = [list(column) for column in zip(*kinds, strict=True)]
    if columns:
        for *kind, seconds in _HISTORY.rows(*columns, HISTORY_JOBS):
            if seconds is not None:
                took_s[tuple(kind)].append(seconds)
    return took_s
