"""What all views of the API share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from muster.accounts.models import User
from muster.accounts.scopes import Scope
from muster.api.bodies import AlwaysJson, JsonParser, require_length
from muster.api.problems import CONTENT_TYPE
from muster.api.scopes import require_scope, token_of
from muster.api.shapes.common import Problem, Shape
from muster.common.errors import Invalid
from muster.jobs.models import Job
from muster.jobs.selectors import get_job

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

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Checks what every request must fulfil before its method is called."""
        super().initial(request, *args, **kwargs)
        require_length(request)


def caller(request: Request) -> User:
    """The user who sends the request; permissions have made sure that there is one."""
    return cast(User, request.user)


def job_to_change(request: Request, job_id: int) -> Job:
    """A job that the caller may see; a token needs the scope `manage` to change another member's."""
    user = caller(request)
    job = get_job(user, job_id)
    if job.owner_id != user.pk:
        require_scope(token_of(request), Scope.MANAGE)
    return job


def body_of(request: Request, shape: type[Shape]) -> dict[str, Any]:
    """The request's body, checked field by field."""
    if not isinstance(request.data, Mapping):
        raise Invalid("the body must be an object")
    return checked(shape, dict(request.data))


def query_of(request: Request, shape: type[Shape]) -> dict[str, Any]:
    """The query's parameters, checked field by field."""
    return checked(shape, known_of(shape, request.query_params.dict()))


def known_of(shape: type[Shape], query: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that the shape knows. A query may have others, which proxies and browsers add; a body may not."""
    known = shape().fields
    return {name: value for name, value in query.items() if name in known}


def checked(shape: type[Shape], data: Mapping[str, Any]) -> dict[str, Any]:
    """The data as the shape reads it; raises DRF's validation error, which names each wrong field."""
    reader = shape(data=data)
    reader.is_valid(raise_exception=True)
    return cast("dict[str, Any]", reader.validated_data)


def describe(
    operation: str,
    *,
    tag: str,
    answers: Mapping[int, Any],
    problems: tuple[int, ...] = (),
    anonymous: bool = False,
    tables: tuple[int, ...] = (),
    **options: Any,
) -> Callable[[Any], Any]:
    """The OpenAPI description of an operation: its answers, which of them may be CSV too, and its problems."""
    responses: dict[Any, Any] = {}
    for status, shape in answers.items():
        if shape is None:
            responses[status] = OpenApiResponse(description="No content.")
        else:
            responses[status, JSON] = shape
    for status in tables:
        responses[status, CSV] = OpenApiTypes.STR
    # These can come from anywhere: a broken request, a token without the scope, and a database that is away.
    always: tuple[int, ...] = (400, 503) if anonymous else (400, 401, 403, 503)
    with_body: tuple[int, ...] = (411,) if 413 in problems else ()
    for status in sorted({*problems, *always, *with_body} - set(answers)):
        responses[status, CONTENT_TYPE] = Problem
    if anonymous:
        options["auth"] = []
    return cast(
        "Callable[[Any], Any]", extend_schema(operation_id=operation, tags=[tag], responses=responses, **options)
    )
