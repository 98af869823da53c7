"""Bases of all views of the API."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, cast

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from muster.accounts.models import User
from muster.accounts.scopes import Scope
from muster.api.bodies import AlwaysJson, JsonParser, TextYamlParser, YamlParser, require_length
from muster.api.fields import Shape
from muster.api.problems import CONTENT_TYPE
from muster.api.scopes import require_scope, token_of
from muster.common.errors import FieldError, Forbidden, Invalid, unknown_parameter
from muster.jobs.groups.progress import get_group
from muster.jobs.models import Job, JobGroup
from muster.jobs.selectors import get_job
from muster_client.answers.service import Problem
from scheduler.model.lifecycle import GroupKind

JSON = "application/json"
CSV = "text/csv"


class ApiView(APIView):
    """A view that reads JSON, answers JSON, and fails with problem documents."""

    parser_classes = [JsonParser]
    content_negotiation_class = AlwaysJson
    # No answer to OPTIONS: it would describe the views in a format of DRF's own, and the OpenAPI document does it.
    metadata_class = None
    write_scope: Scope | None = None
    """The scope that a token needs for methods that change something; None closes them to tokens."""
    open_to_jobs = False
    """True if the token of a job may call it, within its tenant."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Checks what every request must fulfil before its method is called."""
        super().initial(request, *args, **kwargs)
        require_length(request)
        known = getattr(getattr(self, str(request.method).lower(), None), "query_parameters", None)
        if known is not None:
            require_known_parameters(request, known)


class Act(ApiView):
    """Something done with one object, without a body."""

    parser_classes = []


class SpecView(ApiView):
    """A view that reads specs, as JSON or as YAML."""

    parser_classes = [JsonParser, YamlParser, TextYamlParser]


def caller(request: Request) -> User:
    """The user who sends the request; permissions have made sure that there is one."""
    return cast(User, request.user)


def operator(request: Request, act: str) -> User:
    """The caller, who is an operator; `Forbidden` tells others that only operators may `act`."""
    user = caller(request)
    if not user.is_operator:
        raise Forbidden(f"only operators may {act}")
    return user


def require_scope_for(request: Request, what: Job | JobGroup) -> None:
    """Return if the request's token, if it has one, may change this: another member's needs the scope `manage`."""
    if what.owner_id != caller(request).pk:
        require_scope(token_of(request), Scope.MANAGE)


def job_to_change(request: Request, job_id: int) -> Job:
    """A job that the caller may see, and that the request's token may change."""
    job = get_job(caller(request), job_id)
    require_scope_for(request, job)
    return job


def group_to_change(request: Request, kind: GroupKind, group_id: int) -> JobGroup:
    """A group that the caller may see, and that the request's token may change."""
    group = get_group(caller(request), kind, group_id)
    require_scope_for(request, group)
    return group


def body_of(request: Request, shape: type[Shape]) -> dict[str, Any]:
    """The request's body, checked field by field."""
    if not isinstance(request.data, Mapping):
        raise Invalid("the body must be an object")
    return checked(shape, dict(request.data))


def query_of(request: Request, shape: type[Shape]) -> dict[str, Any]:
    """The query's parameters, checked field by field."""
    return checked(shape, request.query_params.dict())


def require_known_parameters(request: Request, known: Collection[str]) -> None:
    """Return if the query has only parameters that the operation describes; `Invalid` names each other one, and the
    nearest known one."""
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        raise Invalid.fields([FieldError(name[:100], unknown_parameter(name, known)) for name in unknown])


def checked(shape: type[Shape], data: Mapping[str, Any]) -> dict[str, Any]:
    """The data as the shape reads it; raises DRF's validation error, which names each wrong field."""
    reader = shape(data=data)
    reader.is_valid(raise_exception=True)
    return cast("dict[str, Any]", reader.validated_data)


def describe(
    operation: str,
    tag: str,
    answers: Mapping[int, Any],
    *,
    problems: tuple[int, ...] = (),
    anonymous: bool = False,
    tables: tuple[int, ...] = (),
    **options: Any,
) -> Callable[[Any], Any]:
    """The OpenAPI description of an operation: its answers, which of them may be CSV too, and its own problems."""
    responses: dict[Any, Any] = {}
    for status, shape in answers.items():
        if shape is None:
            responses[status] = OpenApiResponse(description="No content.")
        else:
            responses[status, JSON] = shape
    for status in tables:
        responses[status, CSV] = OpenApiTypes.STR
    # These can come from anywhere: a broken request, a token without the scope, an unknown query parameter, and a
    # database that is away.
    always: tuple[int, ...] = (400, 503) if anonymous else (400, 401, 403, 422, 503)
    with_body: tuple[int, ...] = (411, 413, 415) if options.get("request") else ()
    for status in sorted({*problems, *always, *with_body} - set(answers)):
        responses[status, CONTENT_TYPE] = Problem
    if anonymous:
        options["auth"] = []
    document = extend_schema(operation_id=operation, tags=[tag], responses=responses, **options)

    def describe_handler(handler: Any) -> Any:
        # Probes of load balancers may add parameters of their own to the health endpoints.
        if not anonymous:
            handler.query_parameters = _query_parameters(options.get("parameters", ()))
        return document(handler)

    return describe_handler


def _query_parameters(parameters: Iterable[type[Shape] | OpenApiParameter]) -> frozenset[str]:
    names: set[str] = set()
    for parameter in parameters:
        if not isinstance(parameter, OpenApiParameter):
            names |= set(parameter().fields)
        elif parameter.location == OpenApiParameter.QUERY:
            names.add(parameter.name)
    return frozenset(names)
