"""The OpenAPI document: valid, complete, and kept by the answers to hundreds of made-up requests."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest
import schemathesis
import schemathesis.openapi
from django.core.management import call_command
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.test import Client
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from muster.accounts.models import User
from muster.api.openapi.schema import GROUPS
from muster.api.urls import v1
from muster.jobs.spec.spec import json_schema
from muster.wsgi import application
from tests.api.asking import openapi
from tests.api.conftest import World
from tests.factories import make_token
from tests.profiles import examples

Api = Callable[[User | None], Client]

# These answer outside Django's handler and have tests of their own.
STREAMS = r"/(logs|stream|uploads)|/v1/shells/"


def test_the_document_is_valid_and_made_without_a_warning(tmp_path: Any) -> None:
    call_command("spectacular", validate=True, fail_on_warn=True, file=str(tmp_path / "schema.yml"))
    assert (tmp_path / "schema.yml").stat().st_size > 10_000


def test_every_path_of_the_api_is_described() -> None:
    described = {path.replace("{", "<").replace("}", ">") for path in openapi()["paths"]}
    for route in v1:
        assert f"/api/v1/{route.pattern}".replace("<id:", "<").replace("<name:", "<") in described


def test_each_operation_has_a_name_of_its_own_and_tells_its_problems() -> None:
    operations = [(path, one) for path, verbs in openapi()["paths"].items() for one in verbs.values()]
    names = [operation["operationId"] for _, operation in operations]
    assert len(names) == len(set(names))
    for path, operation in operations:
        if operation.get("security") != [{}] and path.startswith("/api"):
            assert {"400", "503"} <= operation["responses"].keys(), operation["operationId"]


def test_nothing_in_an_answer_is_left_to_guess() -> None:
    """Every property of an answer is required: what may be missing is null instead."""
    requests = {
        "JobSpec",
        "JobSpecCode",
        "JobSpecRetry",
        "JobSpecCheckpoint",
        "JobSpecElastic",
        "JobSpecLocalitySpec",
        "JobSpecIdle",
        "JobSpecBatch",
        "JobEdit",
    }
    for name, schema in openapi()["components"]["schemas"].items():
        if "properties" in schema and name not in requests and not name.endswith("Request"):
            assert set(schema.get("required", [])) == set(schema["properties"]), name


def test_each_property_and_each_query_parameter_has_a_description() -> None:
    document = openapi()
    properties = [
        (f"{name}.{key}", value)
        for name, schema in document["components"]["schemas"].items()
        for key, value in schema.get("properties", {}).items()
    ]
    parameters = [
        (f"{operation['operationId']}?{parameter['name']}", parameter)
        for verbs in document["paths"].values()
        for operation in verbs.values()
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query"
    ]
    assert properties
    assert parameters
    assert [name for name, value in (*properties, *parameters) if not value.get("description")] == []


def test_each_operation_is_summed_up_in_a_sentence() -> None:
    operations = [one for verbs in openapi()["paths"].values() for one in verbs.values()]
    assert [one["operationId"] for one in operations if not one["summary"] or ". " in one["summary"]] == []


def test_the_schema_of_the_spec_is_a_json_schema(world: World, api: Api) -> None:
    schema = api(world.owner).get("/api/v1/spec/schema").json()
    assert json_schema()["properties"].items() <= schema["properties"].items()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate({"command": "true", "gpus": "A100:4"}, schema)
    sweep = {"method": "asha", "metric": "loss", "params": {"lr": [1]}, "members": 3, "rungs": {"first": 1, "last": 9}}
    jsonschema.validate({"command": "true", "sweep": sweep}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"command": "true", "sweep": sweep | {"methods": 1}}, schema)


@pytest.mark.parametrize("path", ["/api/v1/openapi.json", "/api/v1/schema", "/api/schema"])
def test_the_document_is_served_packed_and_once(client: Client, path: str) -> None:
    plain = client.get(path)
    assert plain.json() == openapi()
    packed = client.get(path, headers={"Accept-Encoding": "gzip"})
    assert packed["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.content) == plain.content
    assert client.get(path, headers={"If-None-Match": plain["ETag"]}).status_code == 304


def test_each_group_of_operations_is_a_document_of_its_own(client: Client) -> None:
    whole, seen = openapi(), 0
    for group in GROUPS:
        part = client.get("/api/v1/openapi.json", {"group": group}).json()
        operations = [one for verbs in part["paths"].values() for one in verbs.values()]
        assert {tag for one in operations for tag in one["tags"]} == {group}
        seen += len(operations)
        schemas = part["components"]["schemas"]
        assert set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(part))) == schemas.keys()
        assert all(schemas[name] == whole["components"]["schemas"][name] for name in schemas)
    assert seen == sum(len(verbs) for verbs in whole["paths"].values())
    assert list(GROUPS) == [tag["name"] for tag in whole["tags"]]
    answer = client.get("/api/v1/openapi.json", {"group": "job"})
    assert (answer.status_code, "write one of jobs, " in answer.json()["detail"]) == (422, True)


schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", application).exclude(path_regex=STREAMS)


@pytest.fixture
def one_connection() -> Iterator[None]:
    """Keeps the connection between requests, as Django's own test client does: it holds the test's transaction."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.mark.django_db
@schema.parametrize()
@settings(
    max_examples=examples(15),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
)
def test_made_up_requests_get_answers_that_are_described(
    case: schemathesis.Case[Any], world: World, one_connection: None
) -> None:
    """No request breaks the server, and each answer has a status, a type and a shape that the document knows."""
    headers = {"Authorization": f"Bearer {make_token(world.operator)}"}
    case.call_and_validate(
        headers=headers,
        checks=[
            schemathesis.checks.not_a_server_error,
            status_code_conformance,
            content_type_conformance,
            response_schema_conformance,
        ],
    )
