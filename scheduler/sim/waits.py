"""The waits of a trace's jobs in the original cluster."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import count

from scheduler.model.lifecycle import JobClass
from scheduler.predict.waits.state import WaitJob, kind_of
from scheduler.sim.trace import Trace


def wait_jobs(trace: Trace) -> list[WaitJob]:
    """The jobs whose wait is known, in their order. Without a date the trace begins at 0.

    A trace does not tell how many GPUs of each type were in service, so jobs of all types count as rivals.
    """
    number: defaultdict[tuple[str, str], int] = defaultdict(count().__next__)
    found = []
    for job in trace.jobs:
        if job.waited_s is None:
            continue
        submitted_at = (trace.began_at or 0.0) + job.submitted_s
        started_at = submitted_at + job.waited_s
        found.append(
            WaitJob(
                owner=number["owner", job.owner],
                kind=kind_of(job.owner, job.name),
                gpus=float(job.gpus),
                nodes=float(job.nodes),
                eligible_at=submitted_at,
                vc=number["vc", job.vc],
                job_class=float(job.job_class is JobClass.GUARANTEED),
                limit_s=math.nan if job.time_limit_s is None else job.time_limit_s,
                started_at=started_at,
                ended_at=started_at + job.work.remaining_s(0.0),
            )
        )
    return found
