"""Columns that hold a request: JSON in Postgres, one `Request` in Python."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import orjson
from django.db import models
from django.db.models.fields.json import KeyTransform

from scheduler.model.codec import to_json
from scheduler.model.request import Request, request_from_dict

# More than the distinct requests of the jobs that wait in all pools at once.
_MAX_CACHED = 1 << 16


@lru_cache(maxsize=_MAX_CACHED)
def request_of_text(text: str) -> Request:
    """The request that a column stores as this text, one object for equal texts; `CodecError` or `RequestError` if it
    is none."""
    return request_from_dict(orjson.loads(text))


class RequestField(models.JSONField):
    """A `Request`; keys of its JSON can be used in queries, such as `request__nodes`."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """The request; the plain value where a query asks for one key of it."""
        if value is None or isinstance(expression, KeyTransform):
            return super().from_db_value(value, expression, connection)
        return request_of_text(value)

    def get_prep_value(self, value: Any) -> Any:
        """The JSON of a request; any other JSON stays as it is."""
        return to_json(value) if isinstance(value, Request) else super().get_prep_value(value)
