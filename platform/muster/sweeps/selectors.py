"""Reading sweeps: how far they are, and their members."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from django.db.models import Count, Sum

from muster.common.clock import finite, hours, moment
from muster.jobs.groups.progress import MEMBER_STATES, STOPPED_BY_GROUP, held_gpu_s, member_state
from muster.jobs.models import Job, JobGroup
from muster.sweeps.models import Trial
from muster.sweeps.spec import SweepSpec, sweep_of
from muster_client.answers.sweeps import SweepMember
from scheduler.model.lifecycle import JOB_TERMINAL
from scheduler.model.reasons import Reason
from scheduler.search import rungs as search
from scheduler.search.rungs import RungCount, judge


@dataclass(slots=True)
class Standing:
    """The standing of a sweep: its members by state, its best one, and their cost and savings."""

    members: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MEMBER_STATES, 0))
    best: Trial | None = None
    gpu_s: float = 0.0
    saved_gpu_s: float = 0.0


def standings(groups: Iterable[JobGroup]) -> dict[int, Standing]:
    """The standing of each of the sweeps; three queries for all of them."""
    found = {group.pk: Standing() for group in groups}
    rows = Job.objects.filter(group__in=list(found)).order_by("group").values("group", "state", "paused")
    rows = rows.annotate(stopped=STOPPED_BY_GROUP)
    for row in rows.annotate(members=Count("pk"), had=Sum("attained_gpu_s"), saved=Sum("trial__saved_gpu_s")):
        standing = found[row["group"]]
        standing.members[member_state(row["state"], paused=row["paused"], stopped=row["stopped"])] += row["members"]
        standing.gpu_s += row["had"]
        standing.saved_gpu_s += row["saved"] or 0.0
    for group_id, gpu_s in held_gpu_s(list(found), by="job__group").items():
        found[group_id].gpu_s += gpu_s
    best = Trial.objects.filter(job__group__in=list(found), score__isnull=False).select_related("job")
    for trial in best.order_by("job__group", "score", "job").distinct("job__group"):
        if trial.job.group_id is not None:
            found[trial.job.group_id].best = trial
    return found


def members_of(group: JobGroup) -> list[SweepMember]:
    """All members, in order; two queries."""
    held = held_gpu_s([group.pk], by="job")
    names = ("pk", "member", "state", "paused", "spec__params", "attained_gpu_s", "reason", "reason_detail")
    times = ("started_at", "ended_at")
    of_trial = ("value", "step", "readings", "saved_gpu_s", "why")
    rows = Job.objects.filter(group=group).order_by("member")
    rows = rows.values(*names, *times, *(f"trial__{name}" for name in of_trial))
    return [
        {
            "member": row["member"],
            "job": row["pk"],
            "state": member_state(row["state"], paused=row["paused"], stopped=row["reason"] == Reason.STOPPED_EARLY),
            "params": row["spec__params"],
            "value": finite(row["trial__value"]),
            "step": row["trial__step"],
            "rung": len(row["trial__readings"] or ()),
            "gpu_hours": hours(row["attained_gpu_s"] + held.get(row["pk"], 0.0)),
            "saved_gpu_hours": hours(row["trial__saved_gpu_s"] or 0.0),
            "why": row["trial__why"] or (row["reason_detail"] if row["ended_at"] else ""),
            "started_at": moment(row["started_at"]),
            "ended_at": moment(row["ended_at"]),
        }
        for row in rows
    ]


def rungs_reached(group: JobGroup, sweep: SweepSpec) -> Sequence[RungCount]:
    """Of each rung how many members have arrived at it, and how many of those the sweep lets go on.

    A member that was already further when it was judged at a rung, and stopped, counts at that rung only.
    """
    rungs = sweep.search_rungs
    if rungs is None:
        return ()
    rows = Job.objects.filter(group=group).values_list("member", "state", "trial__readings", "trial__step")
    members = [
        search_member(number or 0, readings or (), step, living=state not in JOB_TERMINAL)
        for number, state, readings, step in rows
    ]
    return judge(sweep.method, sweep.goal, rungs, members).counts


def search_member(
    number: int, readings: Iterable[tuple[float, float | None]], step: float | None, *, living: bool
) -> search.Member:
    """A member as `scheduler.search` judges it: `readings` are a time and a value for each rung."""
    told = tuple(search.Reading(at, math.nan if value is None else value) for at, value in readings)
    return search.Member(number, told, int(step or 0), living=living)


def spec_of(group: JobGroup) -> SweepSpec:
    """The sweep part of its spec."""
    return sweep_of(group.spec)
