"""What the fields of answers are made of. A field is `Annotated[type, "sentence"]`; these types say more than Python's.

A sentence says what the value is. The OpenAPI document, and with it the help of the pages, is made of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

JsonObject = dict[str, Any]

Values = Mapping[str, Any]
"""An object whose keys depend on its kind."""


class Schema:
    """Keywords of JSON Schema that belong to a type; `ref` names a schema that stands elsewhere in the document."""

    def __init__(self, **keywords: Any) -> None:
        self.keywords = keywords


class OneOf:
    """Marks text that is one of a few values, which the platform lists under this name in the OpenAPI document.

    A later server may have more of them, so the type is text.
    """

    def __init__(self, name: str) -> None:
        self.name = name


Moment = Annotated[str, Schema(format="date-time")]
"""A time as RFC 3339 in UTC, such as 2026-11-28T09:30:00Z."""

JobSpec = Annotated[dict[str, Any], Schema(ref="JobSpec")]
