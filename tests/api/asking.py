"""Small words for requests, and the check of answers against the OpenAPI document."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import jsonschema
from django.test import Client
from drf_spectacular.generators import SchemaGenerator

JOBS = "/api/v1/jobs"


def send(client: Client, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """The answer to a request with a JSON body; header names are written with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is None:
        return client.generic(method, path, headers=named)
    data = body if isinstance(body, bytes | str) else json.dumps(body)
    return client.generic(method, path, data, content_type=named.pop("Content-Type", "application/json"), headers=named)


def submit(client: Client, spec: Any = None, **headers: str) -> Any:
    """The answer to a submission of a job for one GPU."""
    return send(client, "POST", JOBS, {"command": "true", "gpus": 1} if spec is None else spec, **headers)


def problem_of(answer: Any) -> dict[str, Any]:
    """The problem document of a refusal, which every refusal has."""
    assert answer.headers["Content-Type"] == "application/problem+json", answer.content
    document: dict[str, Any] = answer.json()
    assert document.keys() == {"type", "title", "status", "detail", "errors"}
    assert document["status"] == answer.status_code
    return document


def fields_of(answer: Any) -> list[str]:
    """The fields that a refusal names."""
    return [error["field"] for error in problem_of(answer)["errors"]]


@cache
def openapi() -> dict[str, Any]:
    """The OpenAPI document."""
    generator: Any = SchemaGenerator
    document: dict[str, Any] = generator().get_schema(request=None, public=True)
    return document


def require_described(method: str, path: str, answer: Any) -> None:
    """Return if the answer is one that the OpenAPI document describes, and fail if it is not."""
    path = path.partition("?")[0]
    template = next(known for known in openapi()["paths"] if re.fullmatch(re.sub(r"\{[^}]+\}", "[^/:]+", known), path))
    responses = openapi()["paths"][template][method.lower()]["responses"]
    assert str(answer.status_code) in responses, f"{method} {template} does not describe {answer.status_code}"
    content = responses[str(answer.status_code)].get("content")
    if content is None:
        assert answer.content == b""
        return
    kind = answer.headers["Content-Type"].partition(";")[0]
    schema = {**content[kind]["schema"], "components": openapi()["components"]}
    jsonschema.validate(answer.json(), schema, cls=jsonschema.Draft202012Validator)
