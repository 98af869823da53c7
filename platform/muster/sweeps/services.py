"""Submitting and cloning sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.accounts.models import User
from muster.common.errors import Invalid, MusterError
from muster.jobs.attempt.estimates import estimate_jobs
from muster.jobs.groups.submit import Draft, Own, cloned_spec, draft_member, submit_group
from muster.jobs.models import Job, JobGroup
from muster.jobs.spec.spec_texts import checked_params
from muster.jobs.submit.desk import Desk
from muster.sweeps.models import Progress
from muster.sweeps.spec import SweepSpec, params_of, parse_sweep
from scheduler.model.lifecycle import GroupKind
from scheduler.predict.runtimes.quantiles import Source
from scheduler.search.outlook import steps_left
from scheduler.search.rungs import Member, Method, judge


def submit_sweep(
    *, user: User, data: object, idempotency_key: str | None = None, cloned_from: JobGroup | None = None
) -> tuple[JobGroup, bool]:
    """The stored sweep and True; with a key that was used before for the same data, that sweep and False.

    All members are stored with it as jobs, or nothing is. One of them is checked for all. None is screened.
    """

    def draft() -> Draft:
        found = draft_sweep(user=user, data=data)
        estimate_jobs([found.job])
        _expect_stops(found.job, parse_sweep(found.spec["sweep"]), len(found.members))
        return found

    return submit_group(
        user=user,
        kind=GroupKind.SWEEP,
        data=data,
        draft=draft,
        idempotency_key=idempotency_key,
        cloned_from=cloned_from,
        stored=lambda group: Progress.objects.create(group=group),
    )


def draft_sweep(*, user: User, data: object, desk: Desk | None = None) -> Draft:
    """The sweep that the data describes, checked against what the user may use, and not stored."""
    if not isinstance(data, dict) or "sweep" not in data:
        raise Invalid.field("sweep", "it is required here; a spec without it is one job: send it to POST /api/v1/jobs")
    if "params" in data:
        raise Invalid.field("params", "a sweep has its parameters under sweep.params")
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
    members = [Own({"params": one}) for one in params]
    job = draft_member(user=user, data=data, kind=GroupKind.SWEEP, own=members[0], desk=desk)
    if sweep.method is Method.HALVING and not job.checkpoints:
        raise Invalid.field(
            "checkpoint",
            "halving pauses members at rungs: name checkpoint to say that they save their work; or use asha",
        )
    spec = {key: value for key, value in job.spec.items() if key != "params"} | {"sweep": sweep.stored()}
    return Draft(GroupKind.SWEEP, job, spec, members, sweep.parallel)


def size_of(data: object) -> int:
    """The number of members of the sweep that the data describes; 1 if it describes none."""
    try:
        return len(params_of(parse_sweep(data["sweep"]))) if isinstance(data, dict) and "sweep" in data else 1
    except MusterError:
        return 1


def clone_sweep(*, user: User, group: JobGroup, changes: Mapping[str, Any] | None = None) -> JobGroup:
    """A new sweep of the user's with the same spec but for `changes`; of `sweep` only the given keys are changed."""
    spec = cloned_spec(user=user, group=group, changes=changes or {})
    return submit_sweep(user=user, data=spec, cloned_from=group)[0]


def _expect_stops(job: Job, sweep: SweepSpec, size: int) -> None:
    """Expect of each member the steps until it is stopped, not those of a whole run."""
    rungs = sweep.search_rungs
    if rungs is None or job.expected_s is None:
        return
    members = [Member(number) for number in range(1, size + 1)]
    steps = steps_left(rungs, members, judge(sweep.method, sweep.goal, rungs, members))
    share = steps[1] / rungs.steps[-1]
    for name in ("expected_s", "expected_p10_s", "expected_p90_s"):
        setattr(job, name, getattr(job, name) * share)
    job.expected_source = Source.SWEEP
