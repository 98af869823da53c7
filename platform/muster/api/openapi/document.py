"""The OpenAPI document as it is served: whole, or the part of one group of operations, which a browser shows sooner."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import condition, require_safe
from django.views.decorators.vary import vary_on_headers
from drf_spectacular.generators import SchemaGenerator

from muster.api.openapi.schema import GROUPS, Json
from muster.api.problems import problem_of, respond
from muster.common.errors import Invalid

_SCHEMAS = "#/components/schemas/"


@cache
def openapi_document() -> Json:
    """The whole document; it takes half a second to make."""
    generator: Any = SchemaGenerator
    return cast(Json, generator().get_schema(request=None, public=True))


def part_of_document(group: str) -> Json:
    """The operations of a group, with the schemas that they refer to."""
    whole = openapi_document()
    paths: Json = {}
    for path, operations in whole["paths"].items():
        chosen = {method: one for method, one in operations.items() if group in one["tags"]}
        if chosen:
            paths[path] = chosen
    schemas = whole["components"]["schemas"]
    wanted, found = set(_references(paths)), set[str]()
    while wanted:
        name = wanted.pop()
        found.add(name)
        wanted |= set(_references(schemas[name])) - found
    components = {**whole["components"], "schemas": {name: schemas[name] for name in sorted(found)}}
    tags = [tag for tag in whole["tags"] if tag["name"] == group]
    return {**whole, "tags": tags, "paths": paths, "components": components}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _references(item)
    elif isinstance(value, dict):
        reference = value.get("$ref")
        if isinstance(reference, str) and reference.startswith(_SCHEMAS):
            yield reference.removeprefix(_SCHEMAS)
        for item in value.values():
            yield from _references(item)


@dataclass(frozen=True, slots=True)
class _Served:
    plain: bytes
    packed: bytes
    etag: str


@cache
def _served(group: str) -> _Served:
    document = part_of_document(group) if group else openapi_document()
    plain = json.dumps(document, separators=(",", ":")).encode()
    return _Served(plain, gzip.compress(plain, mtime=0), f'"{hashlib.sha256(plain).hexdigest()[:32]}"')


def _etag(request: HttpRequest) -> str | None:
    group = request.GET.get("group", "")
    return _served(group).etag if group in {"", *GROUPS} else None


@require_safe
@vary_on_headers("Accept-Encoding")
@condition(etag_func=_etag)
def schema(request: HttpRequest) -> HttpResponse:
    """`GET /api/v1/openapi.json`: the document, or with `group=jobs` that part of it."""
    group = request.GET.get("group", "")
    if group not in {"", *GROUPS}:
        return respond(problem_of(Invalid.field("group", f"write one of {', '.join(GROUPS)}")))
    served = _served(group)
    packs = "gzip" in request.headers.get("Accept-Encoding", "")
    response = HttpResponse(served.packed if packs else served.plain, content_type="application/json")
    if packs:
        response["Content-Encoding"] = "gzip"
    response["Cache-Control"] = "no-cache"
    return response
