"""Tokens of running jobs: until when they are good, and what they open."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from starlette.routing import Route

from muster.accounts.models import User
from muster.api.access import accesses_of
from muster.api.authentication import Caller, authenticate_request
from muster.api.streaming.access import Authorised
from muster.api.urls import v1
from muster.asgi import _site as site
from muster.jobs.attempt.tokens import job_token
from muster.jobs.models import Attempt, Job
from muster.tenants.models import Membership
from muster.tenants.roles import Role
from muster.tenants.services import add_member
from scheduler.model.lifecycle import AttemptState
from tests.api.asking import fields_of, problem_of, send, submit
from tests.api.conftest import World
from tests.factories import make_job

OPEN = re.compile(
    r"(jobs|arrays|sweeps)(:(batch|count|cancel|dry-run))?|sbatch:translate|slurm/.*"
    r"|(jobs|arrays|sweeps)/<id:[a-z_]+>(:(cancel|requeue|clone|hold|release|retry))?"
    r"|jobs/<id:job_id>/(why|when|delays|attempts|dependencies|events|files|metrics|training)"
    r"|(arrays|sweeps)/<id:[a-z_]+>/members"
)


def attempt_of(job: Job) -> Attempt:
    return Attempt.objects.get(job=job)


def client_of(attempt: Attempt) -> Client:
    return Client(headers={"Authorization": f"Bearer {job_token(attempt.pk)}"})


def caller_of(attempt: Attempt) -> Caller | None:
    return authenticate_request(authorization=f"Bearer {job_token(attempt.pk)}", session_key=None)


class TestLife:
    def test_it_acts_as_the_jobs_owner_while_the_attempt_lives(self, world: World) -> None:
        token = client_of(attempt_of(world.running))
        assert submit(token).json()["owner"] == "olivia"
        for state in (AttemptState.STARTING, AttemptState.RUNNING, AttemptState.STOPPING):
            now = timezone.now()
            Attempt.objects.update(state=state, stopping_at=now, outcome=AttemptState.FAILED)
            assert token.get(f"/api/v1/jobs/{world.waiting.pk}").status_code == 200

    @pytest.mark.parametrize(
        "ended",
        [{"state": AttemptState.SUCCEEDED, "ended_at": timezone.now()}, {"kept_until": timezone.now()}],
        ids=["ended", "kept after its failure"],
    )
    def test_it_ends_with_the_command(self, ended: dict[str, Any], world: World) -> None:
        attempt = attempt_of(world.running)
        caller = caller_of(attempt)
        assert caller is not None
        assert accesses_of([caller])
        Attempt.objects.filter(pk=attempt.pk).update(**ended)
        answer = client_of(attempt).get("/api/v1/jobs")
        assert (answer.status_code, problem_of(answer)["type"]) == (401, "about:blank#unauthenticated")
        assert caller_of(attempt) is None
        assert not accesses_of([caller])

    def test_it_ends_with_the_owners_membership(self, world: World) -> None:
        attempt = attempt_of(world.running)
        Membership.objects.filter(user=world.owner).delete()
        assert caller_of(attempt) is None

    def test_it_ends_with_the_owners_account(self, world: World) -> None:
        attempt = attempt_of(world.running)
        User.objects.filter(pk=world.owner.pk).update(is_active=False)
        assert caller_of(attempt) is None

    def test_a_forged_one_is_refused(self, world: World, settings: Any) -> None:
        attempt = attempt_of(world.running)
        good = job_token(attempt.pk)
        others = job_token(attempt.pk + 1)
        forged = [
            "mj-",
            good[:-1],
            good.upper(),
            good + "x",
            good.replace(f"mj-{attempt.pk}-", f"mj-{attempt.pk + 1}-"),
            others.replace(f"mj-{attempt.pk + 1}-", f"mj-{attempt.pk}-"),
            good.replace("mj-", "mj-0"),
            others,
        ]
        for secret in forged:
            assert Client().get("/api/v1/jobs", headers={"Authorization": f"Bearer {secret}"}).status_code == 401, (
                secret
            )
        old, settings.SECRET_KEY = settings.SECRET_KEY, "another key of the platform, as after its rotation"
        assert Client().get("/api/v1/jobs", headers={"Authorization": f"Bearer {good}"}).status_code == 401
        settings.SECRET_KEY_FALLBACKS = [old]
        assert Client().get("/api/v1/jobs", headers={"Authorization": f"Bearer {good}"}).status_code == 200


class TestRights:
    def test_only_the_paths_of_jobs_are_open_to_it(self, world: World) -> None:
        # An operator who manages the tenant, to whom all paths are open without it.
        User.objects.filter(pk=world.owner.pk).update(is_staff=True)
        Membership.objects.filter(user=world.owner).update(role=Role.MANAGER)
        token = client_of(attempt_of(world.running))
        for pattern in v1:
            view: Any = pattern.callback.cls(**pattern.callback.view_initkwargs)  # type: ignore[attr-defined]
            path = "/api/v1/" + re.sub("<id:[a-z_]+>", "1", str(pattern.pattern)).replace("<name:name>", "gpu01")
            for method in set(view.allowed_methods) - {"OPTIONS", "HEAD"}:
                answer = send(token, method, re.sub("<[^>]+>", "x", path), {} if method != "GET" else None)
                closed = answer.status_code == 403 and problem_of(answer)["type"] == "about:blank#missing-scope"
                is_open = OPEN.fullmatch(str(pattern.pattern)) is not None or path == "/api/v1/login"
                assert closed is not is_open, f"{method} {path}: {answer.content}"

    def test_of_the_streams_it_reads_logs_and_files(self) -> None:
        found = {one.path for one in site.routes if isinstance(one, Route) and isinstance(one.app, Authorised)}
        assert {
            one.path for one in site.routes if isinstance(one, Route) and getattr(one.app, "open_to_jobs", False)
        } == {path for path in found if path.startswith("/api/v1/jobs/")}

    def test_it_sees_the_jobs_own_tenant_alone(self, world: World) -> None:
        # Olivia's first membership of another tenant changes nothing, and neither does being an operator.
        Membership.objects.all().delete()
        for tenant in (world.speech, world.vision):
            add_member(tenant=tenant, user=world.owner, role=Role.MANAGER, actor="test")
        for is_operator in (False, True):
            User.objects.filter(pk=world.owner.pk).update(is_staff=is_operator)
            token = client_of(attempt_of(world.running))
            assert {job["tenant"] for job in token.get("/api/v1/jobs").json()["results"]} == {"vision"}
            assert send(token, "GET", f"/api/v1/jobs/{world.others.pk}").status_code == 404
            assert send(token, "POST", f"/api/v1/jobs/{world.others.pk}:cancel").status_code == 404
            assert submit(token).json()["vc"] == "vision-vc"
            refused = submit(token, {"command": "true", "gpus": 1, "vc": "speech-vc"})
            assert (refused.status_code, fields_of(refused)) == (422, ["vc"])
            assert submit(token, {"command": "true", "after": [f"{world.others.pk}:ok"]}).status_code == 422

    def test_it_changes_only_jobs_of_its_owner(self, world: World) -> None:
        Membership.objects.filter(user=world.owner).update(role=Role.MANAGER)
        others = make_job(world.vc, world.peer)
        token = client_of(attempt_of(world.running))
        assert send(token, "POST", f"/api/v1/jobs/{others.pk}:cancel").status_code == 403
        assert send(token, "POST", f"/api/v1/jobs/{world.waiting.pk}:cancel").status_code == 202
