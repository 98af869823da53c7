"""Problems, and the health of the platform."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from muster_client.answers.terms import UpOrDown


class Health(TypedDict):
    """The health of the process."""

    status: Annotated[Literal["ok"], "Always `ok`; a process that does not run does not answer."]


class Readiness(TypedDict):
    """The readiness for requests. Without Redis everything works, with longer delays."""

    status: Annotated[
        Literal["ready", "degraded", "unavailable"],
        "`ready`; `degraded` without Redis; `unavailable` without Postgres.",
    ]
    postgres: Annotated[UpOrDown, "Whether the platform reaches Postgres."]
    redis: Annotated[UpOrDown, "Whether the platform reaches Redis."]


class FieldError(TypedDict):
    """One wrong field: its dotted name and what is wrong with it."""

    field: Annotated[str, "The dotted name of the field; empty for the body as a whole."]
    message: Annotated[str, "What is wrong with it."]


class Problem(TypedDict):
    """A problem document (RFC 9457)."""

    type: Annotated[str, "A URI that identifies the kind of problem."]
    title: Annotated[str, "The kind of problem in words."]
    status: Annotated[int, "The HTTP status of the answer."]
    detail: Annotated[str, "What happened in this case."]
    errors: Annotated[list[FieldError], "One entry for each wrong field."]
