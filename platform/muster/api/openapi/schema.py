"""Additions to the OpenAPI document: the spec's own schema, and the paths that stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from drf_spectacular.openapi import AutoSchema

from muster.accounts.scopes import Scope
from muster.api.openapi.answers import component_of
from muster.api.openapi.examples import add_examples
from muster.api.problems import CONTENT_TYPE
from muster.api.scopes import scope_of
from muster.jobs.spec.spec import json_schema
from muster_client.answers.outputs import Upload
from scheduler.documents import load_yaml

Json = dict[str, Any]
STREAMS = Path(__file__).with_name("streams.yaml")

# The groups of operations, in the order in which the documentation has them.
GROUPS = {
    "jobs": "Submit, watch, change and stop jobs; their logs, files, metrics and shells.",
    "arrays": "The same job many times, with other indices or parameters.",
    "sweeps": "Many jobs with different values of parameters.",
    "queue": "The order of waiting jobs, holds and bumps.",
    "cluster": "Nodes, GPUs, pools, virtual clusters, tenants, volumes and maintenance.",
    "usage": "The use of GPU time, and its fairness.",
    "account": "The user, tokens, sessions, notices and webhooks.",
    "offers": "Offers of free GPUs to external schedulers.",
    "service": "The health of the platform.",
}


class ScopedSchema(AutoSchema):
    """Operations whose security names the scope that a token needs."""

    def get_auth(self) -> list[dict[str, Any]]:
        """The ways to authenticate."""
        ways: list[dict[str, Any]] = super().get_auth()
        return [{"token": [scope_of(self.view, self.method)]} if "token" in way else way for way in ways]


def complete(result: Json, generator: Any, request: Any, public: bool) -> Json:
    """The document with the schemas and paths that it cannot find out by itself; a hook of drf-spectacular."""
    schemas = result.setdefault("components", {}).setdefault("schemas", {})
    schemas.update(_spec_schemas())
    # No view of Django leads to this answer.
    schemas["Upload"] = component_of(Upload, lambda answer: {})
    result["paths"].update(_streams())
    for operations in result["paths"].values():
        for operation in operations.values():
            operation["summary"] = _first_sentence(operation["description"])
            add_examples(operation)
    result["paths"] = dict(sorted(result["paths"].items()))
    result["tags"] = [{"name": name, "description": description} for name, description in GROUPS.items()]
    return result


def _first_sentence(text: str) -> str:
    """The summary of an operation: the first sentence of its text."""
    return " ".join(text.split()).partition(". ")[0].removesuffix(".")


def _spec_schemas() -> Json:
    """The spec's schema with its parts as components. Defaults are left out: they are not what an answer must have."""
    schema = json_schema()
    parts = schema.pop("$defs", {})
    named = {f"JobSpec{name}": part for name, part in parts.items()} | {"JobSpec": schema}
    return {name: _adapted(part) for name, part in named.items()}


def _adapted(value: Any) -> Any:
    if isinstance(value, list):
        return [_adapted(item) for item in value]
    if not isinstance(value, dict):
        return value
    result = {key: _adapted(item) for key, item in value.items() if key != "default"}
    if isinstance(result.get("$ref"), str):
        result["$ref"] = result["$ref"].replace("#/$defs/", "#/components/schemas/JobSpec")
    return result


def _streams() -> Json:
    """The paths that stream, each operation with its security and its refusals."""
    paths = cast(Json, load_yaml(STREAMS.read_text(encoding="utf-8")))
    document = {"schema": {"$ref": "#/components/schemas/Problem"}}
    for operations in paths.values():
        for operation in operations.values():
            scope = operation.pop("scope", Scope.READ.value)
            operation["security"] = [{"token": [scope]}, {"cookieAuth": []}] if scope else [{"token": []}]
            for status in sorted({400, 401, 403, 503, *operation.pop("problems", ())}):
                operation["responses"][str(status)] = {"description": "", "content": {CONTENT_TYPE: document}}
    return paths
