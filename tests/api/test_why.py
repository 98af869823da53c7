"""Reasons of a job that waits for its quota: the number of jobs ahead of it, and the holders of the GPUs."""

from __future__ import annotations

from collections.abc import Callable

from django.test import Client

from muster.accounts.models import User
from muster.jobs.models import Job
from scheduler.model.lifecycle import HoldReason
from tests.api.asking import JOBS, require_described
from tests.api.conftest import World
from tests.factories import make_attempt, make_job, make_node

Api = Callable[[User | None], Client]


def hold_for_quota(job: Job) -> None:
    evidence = {"vc": "vision-vc", "gpu_type": "A100", "used": 4, "quota": 4, "needed": 1}
    detail = "vision-vc uses 4 of its 4 A100; this job needs 1"
    hold = {"reason": "quota", "detail": detail, "evidence": evidence, "helps": []}
    Job.objects.filter(pk=job.pk).update(hold_reason=HoldReason.QUOTA, hold=hold)


def test_it_is_told_how_many_jobs_are_ahead_of_it(world: World, api: Api) -> None:
    jobs = [world.waiting, *(make_job(world.vc, world.peer) for _ in range(2))]
    for job in jobs:
        hold_for_quota(job)
    told = [api(world.owner).get(f"{JOBS}/{job.pk}/why").json() for job in jobs]
    assert [one["ahead"] for one in told] == [0, 1, 2]
    used = "vision-vc uses 4 of its 4 A100; this job needs 1"
    assert [one["detail"] for one in told] == [
        used,
        f"{used}; one job is ahead of it in the queue of vision-vc",
        f"{used}; 2 jobs are ahead of it in the queue of vision-vc",
    ]


def test_it_is_told_who_has_the_gpus_of_its_quota(world: World, api: Api) -> None:
    node = make_node(world.pool, "gpu02", gpus=8)
    make_attempt(make_job(world.vc, world.peer, name="large", gpus=3), [node])
    make_attempt(make_job(world.other_vc, world.stranger, name="elsewhere"), [make_node(world.pool, gpus=1)])
    hold_for_quota(world.waiting)
    path = f"{JOBS}/{world.waiting.pk}/why"
    answer = api(world.owner).get(path)
    require_described("GET", path, answer)
    holders = [
        (one["owner"], one["gpus"], one["jobs_total"], [(job["name"], job["gpus"]) for job in one["jobs"]])
        for one in answer.json()["holders"]
    ]
    assert holders == [("pete", 3, 1, [("large", 3)]), ("olivia", 2, 1, [("running", 2)])]


def test_a_job_that_runs_is_told_neither(world: World, api: Api) -> None:
    told = api(world.owner).get(f"{JOBS}/{world.running.pk}/why").json()
    assert (told["ahead"], told["holders"]) == (None, [])
