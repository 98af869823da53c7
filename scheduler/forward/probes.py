"""Probes: jobs of the kinds that are usual in a pool, of which a forward run finds out when they would start.

A probe takes part in decisions, but is never placed: what it would get stays free for the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from scheduler.forward.answer import Kind, kind_of
from scheduler.model import Job, Snapshot
from scheduler.model.request import request_of

MAX_PROBES = 48


def probes_of(snapshot: Snapshot) -> Sequence[tuple[Kind, Job]]:
    """The probes of a pool, at most `MAX_PROBES`, with negative ids, submitted now.

    The half of them are the most frequent kinds of its jobs; the others are one GPU and one whole node of each GPU type
    for each virtual cluster, those with jobs first. An empty pool has none.
    """
    jobs = [*snapshot.waiting, *(run.job for run in snapshot.running if not run.foreign)]
    examples: dict[Kind, Job] = {}
    counts = Counter[Kind]()
    for job in jobs:
        kind = kind_of(job)
        counts[kind] += 1
        examples.setdefault(kind, job)
    wanted = {kind: examples[kind] for kind, _ in counts.most_common(MAX_PROBES // 2)}
    for job in _usual(snapshot, jobs):
        if len(wanted) == MAX_PROBES:
            break
        wanted.setdefault(kind_of(job), job)
    # The smallest one has the smallest id: of jobs that were submitted at one moment it goes first.
    ordered = sorted(wanted.items(), key=lambda one: (-one[0].gpus, -one[0].nodes))
    return [(kind, _as_new(job, -number, snapshot.now)) for number, (kind, job) in enumerate(ordered, 1)]


def _usual(snapshot: Snapshot, jobs: Sequence[Job]) -> Iterator[Job]:
    """One GPU, and one whole node, of each GPU type, for each virtual cluster, like one of its jobs."""
    if not jobs:
        return
    sizes: dict[str, int] = {}
    for node in snapshot.nodes:
        for gpu_type, gpus in Counter(gpu.type for gpu in node.gpus).items():
            sizes[gpu_type] = max(gpus, sizes.get(gpu_type, 0))
    like = {job.vc_id: job for job in reversed(jobs)}
    for vc in sorted(snapshot.vcs, key=lambda vc: (vc.id not in like, vc.id)):
        job = like.get(vc.id) or replace(jobs[0], tenant_id=vc.tenant_id, vc_id=vc.id, owner_id=0)
        for gpu_type, most in sorted(sizes.items()):
            for gpus in sorted({1, most}):
                request = request_of(gpu_type=gpu_type, gpus=gpus)
                yield replace(job, request=request, rates=(), speeds=())


def _as_new(job: Job, job_id: int, now: float) -> Job:
    """The job as one that is submitted now."""
    whole = job.expected_s if job.expected_s is not None else job.remaining_s
    return replace(
        job,
        id=job_id,
        submitted_at=now,
        eligible_at=0.0,
        requeued_at=0.0,
        attained_gpu_s=0.0,
        ran_s=0.0,
        remaining_s=whole,
        avoid_nodes=(),
        still_stopping=False,
        policy_state={},
        fixed_until=0.0,
        group_id=None,
        bumped=0,
        own_rank=None,
    )
