"""The platform about itself: its health, its figures, and the schema of a job spec."""

from __future__ import annotations

import logging
import secrets

import redis
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.http import HttpRequest, HttpResponse
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from rest_framework import status
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from muster.api.authentication import bearer_secret
from muster.api.base import ApiView, describe
from muster.api.problems import problem, respond
from muster.api.service import metrics
from muster.arrays.spec import array_schema
from muster.events.redis import client
from muster.jobs.spec.spec import json_schema
from muster.sweeps.spec import SweepSpec
from muster_client.answers import service as answers

log = logging.getLogger(__name__)


class Alive(ApiView):
    authentication_classes = []
    permission_classes = [AllowAny]

    @describe("get_health", "service", {200: answers.Health}, anonymous=True)
    def get(self, request: Request) -> Response:
        """Answer if the process runs; checks nothing else."""
        return Response(answers.Health(status="ok"))


class Ready(ApiView):
    authentication_classes = []
    permission_classes = [AllowAny]

    @describe("get_readiness", "service", {200: answers.Readiness, 503: answers.Readiness}, anonymous=True)
    def get(self, request: Request) -> Response:
        """Postgres and Redis, each with its state. Only Postgres is needed."""
        postgres, cache = _postgres_is_up(), _redis_is_up()
        answer: answers.Readiness = {
            "status": "unavailable" if not postgres else "ready" if cache else "degraded",
            "postgres": _word(postgres),
            "redis": _word(cache),
        }
        return Response(answer, status=status.HTTP_200_OK if postgres else status.HTTP_503_SERVICE_UNAVAILABLE)


class SpecSchema(ApiView):
    @describe("get_spec_schema", "jobs", {200: {"type": "object", "additionalProperties": {}}})
    def get(self, request: Request) -> Response:
        """The JSON Schema of job specs, for editors."""
        return Response(json_schema(sweep=SweepSpec.model_json_schema(), array=array_schema()))


def prometheus(request: HttpRequest) -> HttpResponse:
    """The figures for Prometheus, for callers who send the metrics token."""
    secret = bearer_secret(request.META.get("HTTP_AUTHORIZATION")) or ""
    # The address proves nothing: a proxy on this machine forwards all callers from loopback.
    if not (settings.METRICS_TOKEN and secrets.compare_digest(secret.encode(), settings.METRICS_TOKEN.encode())):
        refusal = respond(problem(401, "send the metrics token: Authorization: Bearer TOKEN"))
        refusal["WWW-Authenticate"] = "Bearer"
        return refusal
    return HttpResponse(metrics.exposition(), content_type=CONTENT_TYPE_LATEST)


def _postgres_is_up() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except (DatabaseError, InterfaceError) as error:
        log.warning("readiness part=postgres error=%s", error)
        # The next check must open a new connection instead of asking this one again.
        connection.close()
        return False
    return True


def _redis_is_up() -> bool:
    try:
        client().ping()
    except redis.RedisError as error:
        log.warning("readiness part=redis error=%s", error)
        return False
    return True


def _word(up: bool) -> str:
    return "up" if up else "down"
