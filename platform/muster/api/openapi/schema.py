"""What the OpenAPI document says beyond Django's views: the spec's own schema, and the paths that stream."""

from __future__ import annotations

from typing import Any

from drf_spectacular.openapi import AutoSchema

from muster.accounts.scopes import Scope
from muster.api.openapi.answers import component_of
from muster.api.openapi.examples import add_examples
from muster.api.problems import CONTENT_TYPE
from muster.api.scopes import scope_of
from muster.jobs.spec.spec import json_schema
from muster_client.answers.outputs import Upload

Json = dict[str, Any]

# The groups of operations, in the order in which the documentation has them.
GROUPS = {
    "jobs": "Submit, watch, change and stop jobs; their logs, files, metrics and shells.",
    "sweeps": "Many jobs that try values of parameters.",
    "queue": "The order of jobs that wait, holds, and what a manager puts first.",
    "cluster": "Nodes, GPUs, pools, virtual clusters, tenants, volumes and maintenance.",
    "usage": "What GPU time was used for, and how fairly.",
    "account": "The user, tokens, sessions, notices and webhooks.",
    "offers": "Free GPUs, offered to schedulers of others.",
    "service": "The platform about itself.",
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
    # Paths that stream are written out below, so that nothing else leads to this answer.
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
    """What stands beside an operation's path in a list of them."""
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
    return {
        "/api/v1/jobs/{job_id}/logs": {"get": _read_logs()},
        "/api/v1/jobs/{job_id}/files/{file_id}": {"get": _read_file()},
        "/api/v1/stream": {
            "get": _operation(
                "stream",
                "service",
                "Changes of what the caller may see, as server-sent events: {topic, kind, job, node, at, data}.",
                answers={
                    "200": {"description": "Events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
                },
                problems=(422,),
                parameters=(_query("topics", "string", "Separated by commas: jobs, job:1042, nodes."),),
            )
        },
        "/api/v1/shells/{shell_id}/output": {"get": _shell_output()},
        "/api/v1/shells/{shell_id}/input": {"post": _shell_input()},
        "/api/v1/shells/{shell_id}:close": {"post": _shell_close()},
        "/api/v1/uploads": {"post": _upload_code()},
        "/api/v1/uploads/{sha256}": {
            "head": _operation(
                "has_upload",
                "jobs",
                "Whether the caller has uploaded this archive.",
                answers={"200": {"description": "Yes."}, "404": {"description": "No."}},
                parameters=({"name": "sha256", "in": "path", "required": True, "schema": {"type": "string"}},),
            )
        },
    }


def _read_logs() -> Json:
    return _operation(
        "read_logs",
        "jobs",
        (
            "What the job printed: bytes from `offset` on, or an event stream that goes on until the job ends. "
            "Without `rank` these are the bytes of all ranks in the order of arrival, exactly as they were printed: no "
            "mark of the rank is put between them. `X-Muster-Ranks` and the events say which rank printed what. "
            "`offset`, `X-Muster-Size` and the ids of events count the bytes of that order, with those that were given "
            "up; with `rank` they count the rank's own bytes. An answer ends at a hole: go on at "
            "`X-Muster-Next-Offset` until that is `X-Muster-Size`. A download leaves holes out."
        ),
        answers={
            "200": {
                "description": (
                    "Bytes; with `follow=1` server-sent events: `log` {attempt, offset, rank, text}, "
                    "`state` {attempt, state}, `end` {state, exit_code}. Ids are attempt:position; the `offset` of an "
                    "event counts the bytes of its rank."
                ),
                "headers": {
                    "X-Muster-Attempt": _header("Which attempt this is of."),
                    "X-Muster-Size": _header("Bytes printed so far, with those that were given up."),
                    "X-Muster-Offset": _header("Where the answer begins: behind `offset` if that lies in a hole."),
                    "X-Muster-Ranks": {
                        "schema": {"type": "string"},
                        "description": (
                            "Which rank printed which bytes of the answer: RANK:OFFSET:SIZE for each turn, separated "
                            "by commas. OFFSET counts the rank's own bytes. An answer has 100 turns at most."
                        ),
                    },
                    "X-Muster-Next-Offset": _header("Where the next piece begins."),
                },
                "content": {
                    "text/plain": {"schema": {"type": "string"}},
                    "text/event-stream": {"schema": {"type": "string"}},
                },
            }
        },
        problems=(404, 422),
        parameters=(
            {"name": "job_id", "in": "path", "required": True, "schema": {"type": "integer"}},
            _query("attempt", "integer", "The attempt's number; the latest by default."),
            _query("rank", "integer", "Only this rank; by default all ranks in the order of arrival."),
            _query("offset", "integer", "The first byte."),
            _query("limit", "integer", "The maximum number of bytes: 256 KiB by default, 4 MiB at most."),
            _query("follow", "integer", "1: an event stream."),
            _query("download", "integer", "1: all bytes from `offset` on, as a file."),
            {
                "name": "Last-Event-ID",
                "in": "header",
                "schema": {"type": "string"},
                "description": "Go on behind this event; sent by browsers by themselves.",
            },
        ),
    )


def _read_file() -> Json:
    return _operation(
        "read_job_file",
        "jobs",
        "A file that the job left, byte by byte; a `Range` gives a part of it.",
        answers={
            str(status): {
                "description": description,
                "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
            }
            for status, description in ((200, "The file."), (206, "The part that was asked for."))
        },
        problems=(404,),
        parameters=(
            {"name": "job_id", "in": "path", "required": True, "schema": {"type": "integer"}},
            {"name": "file_id", "in": "path", "required": True, "schema": {"type": "integer"}},
            {"name": "Range", "in": "header", "schema": {"type": "string"}, "description": "Such as bytes=0-1023."},
        ),
    )


_SHELL_ID: Json = {"name": "shell_id", "in": "path", "required": True, "schema": {"type": "integer"}}
_SHELL_STATE: Json = {
    "closed": {"type": "boolean"},
    "reason": {"type": ["string", "null"], "description": "Why it was closed; `exited` if it ended by itself."},
    "detail": {"type": ["string", "null"]},
    "exit_code": {"type": ["integer", "null"]},
}
_BASE64: Json = {"type": "string", "contentEncoding": "base64"}


def _shell_output() -> Json:
    return _operation(
        "read_shell",
        "jobs",
        "What the shell wrote from `offset` on, once there is something; confirms the rest. With the shell's token.",
        answers={
            "200": _object("Bytes, or how it ended once all of them are read.", {"data": _BASE64, **_SHELL_STATE})
        },
        problems=(404, 409, 422),
        scope=None,
        parameters=(
            _SHELL_ID,
            _query("offset", "integer", "The first byte."),
            _query("wait", "integer", "Seconds, at most 25."),
        ),
    )


def _shell_input() -> Json:
    whole: Json = {"type": "integer", "minimum": 0}
    side: Json = {"type": "integer", "minimum": 1, "maximum": 1000}
    operation = _operation(
        "write_shell",
        "jobs",
        "What was typed from `start` on; the answer waits for room. With the shell's own token.",
        answers={
            "200": _object(
                "How far it is taken, and how far it is confirmed.", {"size": whole, "acked": whole, **_SHELL_STATE}
            )
        },
        problems=(404, 409, 413, 422),
        scope=None,
        parameters=(_SHELL_ID,),
    )
    properties = {
        "first": whole,
        "start": whole,
        "data": _BASE64,
        "over": {"type": "boolean"},
        "rows": side,
        "cols": side,
    }
    operation["requestBody"] = {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object", "properties": properties}}},
    }
    return operation


def _shell_close() -> Json:
    return _operation(
        "close_shell",
        "jobs",
        "End the shell. With the shell's own token.",
        answers={"200": _object("How it ended.", _SHELL_STATE)},
        problems=(404,),
        scope=None,
        parameters=(_SHELL_ID,),
    )


def _object(description: str, properties: Json) -> Json:
    schema = {"type": "object", "required": list(properties), "properties": properties}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _upload_code() -> Json:
    stored = {
        "description": "Stored.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Upload"}}},
    }
    digest = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
    operation = _operation(
        "upload_code",
        "jobs",
        "Store a folder of code, packed as tar.gz: 201, or 200 if it is known already.",
        answers={"200": stored, "201": stored},
        problems=(413, 415, 422, 429, 507),
        parameters=(
            {
                "name": "X-Content-SHA256",
                "in": "header",
                "required": True,
                "schema": digest,
                "description": "The SHA-256 of the body, as the platform checks it.",
            },
        ),
        scope=Scope.SUBMIT,
    )
    operation["requestBody"] = {
        "required": True,
        "content": {"application/gzip": {"schema": {"type": "string", "contentMediaType": "application/gzip"}}},
    }
    return operation


def _operation(
    operation_id: str,
    tag: str,
    description: str,
    *,
    answers: Json,
    problems: tuple[int, ...] = (),
    parameters: tuple[Json, ...],
    scope: Scope | None = Scope.READ,
) -> Json:
    document = {"schema": {"$ref": "#/components/schemas/Problem"}}
    refusals = {
        str(status): {"description": "", "content": {CONTENT_TYPE: document}}
        for status in sorted({400, 401, 403, 503, *problems})
    }
    return {
        "operationId": operation_id,
        "description": description,
        "parameters": list(parameters),
        "tags": [tag],
        "security": [{"token": [scope]}, {"cookieAuth": []}] if scope else [{"token": []}],
        "responses": {**answers, **refusals},
    }


def _query(name: str, kind: str, description: str) -> Json:
    return {"in": "query", "name": name, "schema": {"type": kind}, "description": description}


def _header(description: str) -> Json:
    return {"schema": {"type": "integer"}, "description": description}
