"""Every error of the API as a problem document (RFC 9457)."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.core.exceptions import DisallowedHost, PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from rest_framework import exceptions, status
from rest_framework.response import Response

from muster.common.errors import FieldError, MusterError, NotFound, TooLarge, TooMany, Unavailable
from muster_client.answers.service import Problem

log = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"
RETRY_AFTER_S = 2

_TITLES: Mapping[int, tuple[str, str]] = {
    400: ("bad-request", "The request cannot be used"),
    401: ("unauthenticated", "Sign in first"),
    403: ("forbidden", "Not allowed"),
    404: ("not-found", "Not found"),
    405: ("method-not-allowed", "The path does not know this method"),
    406: ("not-acceptable", "There is no answer in this format"),
    415: ("unsupported-media-type", "The body has a type that this path does not read"),
    422: ("invalid", "Some fields are wrong"),
    429: ("too-many", "Too many requests"),
    500: ("internal", "Something broke on our side"),
    503: ("unavailable", "Temporarily unavailable"),
    507: ("no-room", "The platform has no room for this"),
}


def problem(
    status_code: int, detail: str, *, errors: Sequence[FieldError] = (), code: str = "", title: str = ""
) -> Problem:
    """The document for a status; code and title follow from it unless they are given."""
    known_code, known_title = _TITLES.get(status_code, ("error", "The request failed"))
    return {
        "type": f"about:blank#{code or known_code}",
        "title": title or known_title,
        "status": status_code,
        "detail": detail,
        "errors": [{"field": error.field, "message": error.message} for error in errors],
    }


def problem_of(error: MusterError) -> Problem:
    """The document for a refusal by a service."""
    return problem(error.status, error.detail, errors=error.errors, code=error.code, title=error.title)


def exception_handler(error: Exception, context: dict[str, Any]) -> Response:
    """The answer to whatever a view raised; nothing escapes, and nothing internal is told."""
    document, headers = _explain(error)
    if document["status"] >= 500:
        request = context.get("request")
        log.error(
            "request_failed method=%s path=%s error=%s",
            getattr(request, "method", "?"),
            getattr(request, "path", "?"),
            type(error).__name__,
            exc_info=error,
        )
    return Response(document, status=document["status"], headers=headers, content_type=CONTENT_TYPE)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """The answer for an unknown path."""
    return respond(problem_of(NotFound(f"there is nothing at {request.path[:200]}")))


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """The answer to a request that Django itself refuses, such as one for another host."""
    return respond(_explain(exception or SuspiciousOperation())[0])


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """The answer to a request that a view outside the API refuses."""
    return respond(problem(403, "you may not do this"))


def server_error(request: HttpRequest) -> HttpResponse:
    """The answer when something outside the views broke, such as the store of the sessions."""
    error = sys.exc_info()[1]
    document, headers = _explain(error if isinstance(error, Exception) else RuntimeError())
    return respond(document, headers)


def respond(document: Problem, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """A problem document as the answer of a plain Django view."""
    return JsonResponse(document, status=document["status"], headers=dict(headers or {}), content_type=CONTENT_TYPE)


def _explain(error: Exception) -> tuple[Problem, dict[str, str]]:
    if isinstance(error, TooMany):
        return problem_of(error), {"Retry-After": str(error.retry_after_s)}
    if isinstance(error, Unavailable):
        return problem_of(error), {"Retry-After": str(RETRY_AFTER_S)}
    if isinstance(error, MusterError):
        return problem_of(error), {}
    if isinstance(error, OperationalError | InterfaceError):
        gone = Unavailable("the database does not answer; nothing was stored, and the request can be sent again")
        return problem_of(gone), {"Retry-After": str(RETRY_AFTER_S)}
    if isinstance(error, RequestDataTooBig):
        return problem_of(TooLarge("the body is larger than this path accepts")), {}
    if isinstance(error, DisallowedHost):
        detail = (
            f"this platform answers at {settings.PUBLIC_URL}, not at this host; operators set its address by MUSTER_URL"
        )
        return problem(400, detail), {}
    if isinstance(error, SuspiciousOperation):
        return problem(400, "the request is malformed"), {}
    if isinstance(error, Http404):
        return problem(404, "there is nothing here"), {}
    if isinstance(error, PermissionDenied):
        return problem(403, "you may not do this"), {}
    if isinstance(error, exceptions.APIException):
        return _explain_api_exception(error)
    return problem(500, "the error was logged; if it comes back, tell your operators when it happened"), {}


def _explain_api_exception(error: exceptions.APIException) -> tuple[Problem, dict[str, str]]:
    headers: dict[str, str] = {}
    auth_header = getattr(error, "auth_header", None)
    if auth_header:
        headers["WWW-Authenticate"] = auth_header
    wait = getattr(error, "wait", None)
    if wait:
        headers["Retry-After"] = str(math.ceil(wait))
    if isinstance(error, exceptions.ValidationError):
        fields = tuple(_field_errors(error.detail))
        detail = "; ".join(f"{one.field}: {one.message}" if one.field else one.message for one in fields)
        return problem(status.HTTP_422_UNPROCESSABLE_ENTITY, detail, errors=fields), headers
    return problem(error.status_code, str(error.detail)), headers


def _field_errors(detail: Any, field: str = "") -> list[FieldError]:
    """The errors of nested serializers with dotted field names."""
    if isinstance(detail, Mapping):
        return [
            error
            for name, inner in detail.items()
            for error in _field_errors(inner, field if name == "non_field_errors" else f"{field}.{name}".lstrip("."))
        ]
    if isinstance(detail, list):
        if all(isinstance(item, str) for item in detail):
            return [FieldError(field, " ".join(detail))]
        return [error for index, item in enumerate(detail) if item for error in _field_errors(item, f"{field}.{index}")]
    return [FieldError(field, str(detail))]
