"""Submitting and cloning sweeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from muster.accounts.models import User
from muster.common.errors import Invalid, MusterError
from muster.jobs.attempt.estimates import estimate_jobs
from muster.jobs.groups.services import store_group
from muster.jobs.models import IdempotencyKey, Job, JobGroup
from muster.jobs.ports import ports
from muster.jobs.services import draft_job
from muster.jobs.spec.spec_texts import checked_params
from muster.jobs.submit.desk import Desk
from muster.jobs.submit.idempotency import once
from muster.sweeps.models import Progress
from muster.sweeps.spec import SweepSpec, params_of, parse_sweep
from scheduler.model.lifecycle import GroupKind
from scheduler.predict.estimate import Source
from scheduler.search.outlook import steps_left
from scheduler.search.rungs import Member, Method, judge
from scheduler.search.space import Point


@dataclass(frozen=True, slots=True)
class Draft:
    """A sweep that is not stored: its first member, and the parameters of all of them."""

    sweep: SweepSpec
    job: Job
    params: list[Point]


def submit_sweep(
    *, user: User, data: object, idempotency_key: str | None = None, cloned_from: JobGroup | None = None
) -> tuple[JobGroup, bool]:
    """The stored sweep and True; with a key that was used before for the same data, that sweep and False.

    All members are stored with it as jobs, or nothing is. One of them is checked for all. None is screened.
    """

    def store(note: Callable[..., object]) -> JobGroup:
        draft = draft_sweep(user=user, data=data)
        estimate_jobs([draft.job])
        _expect_stops(draft)
        with transaction.atomic():
            group = _store(draft, user, cloned_from)
            note(group=group)
        return group

    return once(user=user, key=idempotency_key, data={"sweep": data}, store=store, known=_stored)


def draft_sweep(*, user: User, data: object, desk: Desk | None = None) -> Draft:
    """The sweep that the data describes, checked against what the user may use, and not stored."""
    if not isinstance(data, dict) or "sweep" not in data:
        raise Invalid.field("sweep", "it is required here; a spec without it is one job: send it to POST /api/v1/jobs")
    if "params" in data:
        raise Invalid.field("params", "a sweep has its parameters under sweep.params")
    if data.get("screening") == "always":
        raise Invalid.field("screening", "members of a sweep are not screened: leave it out")
    sweep = parse_sweep(data["sweep"])
    params = params_of(sweep)
    env = data.get("env")
    for name in sweep.params:
        if isinstance(env, dict) and name in env:
            raise Invalid.field(f"sweep.params.{name}", "env has this variable too: leave one of them out")
    for member in params:
        try:
            checked_params(member)
        except ValueError as error:
            raise Invalid.field("sweep.params", str(error)) from error
    member = {key: value for key, value in data.items() if key != "sweep"} | {"params": params[0]}
    job = draft_job(user=user, data=member, desk=desk)
    if sweep.method is Method.HALVING and not job.checkpoints:
        raise Invalid.field(
            "checkpoint",
            "halving pauses members at rungs: name checkpoint to say that they save their work; or use asha",
        )
    return Draft(sweep, job, params)


def size_of(data: object) -> int:
    """How many members the sweep that the data describes has; 1 if it describes none."""
    try:
        return len(params_of(parse_sweep(data["sweep"]))) if isinstance(data, dict) and "sweep" in data else 1
    except MusterError:
        return 1


def warnings_of(member: Job) -> list[str]:
    """What the submitter should know of a sweep with this member: that it waits for GPUs that do not exist."""
    found = ports.why_infeasible(member)
    return [] if found is None else [f"{found.errors[0].message}. It waits until the pool or the quota grows"]


def clone_sweep(*, user: User, group: JobGroup, changes: Mapping[str, Any] | None = None) -> JobGroup:
    """A new sweep of the user's with the same spec but for `changes`; of `sweep` only the given keys are changed."""
    if group.code and not group.code.owners.filter(pk=user.pk).exists():
        # A user who may see the sweep may run its code, which stands readable in the working folders of its members.
        group.code.owners.add(user)
    return submit_sweep(user=user, data=changed_spec(group, changes or {}), cloned_from=group)[0]


def changed_spec(group: JobGroup, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of the sweep with other values; of `sweep` only the given keys are other."""
    spec: dict[str, Any] = group.spec | dict(changes)
    if isinstance(inner := changes.get("sweep"), dict):
        merged = group.spec["sweep"] | inner
        spec["sweep"] = {key: value for key, value in merged.items() if value is not None}
    return spec


def _stored(known: IdempotencyKey) -> JobGroup:
    return JobGroup.objects.select_related("tenant", "vc", "pool", "owner").get(pk=known.group_id or 0)


def _expect_stops(draft: Draft) -> None:
    """Expect of each member the steps until it is stopped, not those of a whole run."""
    job, rungs = draft.job, draft.sweep.search_rungs
    if rungs is None or job.expected_s is None:
        return
    members = [Member(number) for number in range(1, len(draft.params) + 1)]
    steps = steps_left(rungs, members, judge(draft.sweep.method, draft.sweep.goal, rungs, members))
    job.expected_s *= steps[1] / rungs.steps[-1]
    job.expected_source = Source.SWEEP


def _store(draft: Draft, user: User, cloned_from: JobGroup | None) -> JobGroup:
    job, sweep = draft.job, draft.sweep
    group = store_group(
        user=user,
        kind=GroupKind.SWEEP,
        job=job,
        spec={key: value for key, value in job.spec.items() if key != "params"} | {"sweep": sweep.stored()},
        members=[{"params": params} for params in draft.params],
        parallel=sweep.parallel,
        cloned_from=cloned_from,
    )
    Progress.objects.create(group=group)
    return group
