"""Examples in the OpenAPI document: requests with their answers, as tests have sent and got them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).with_name("examples.json")
_JSON = "application/json"


@cache
def recorded() -> dict[str, dict[str, Any]]:
    """By operation: its `status` and `answer`, and its `request` if it has a body."""
    found: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text())
    return found


def add_examples(operation: dict[str, Any]) -> None:
    """Put the examples of the operation, if there are any, beside its schemas."""
    example = recorded().get(operation["operationId"])
    if example is None:
        return
    if "request" in example:
        operation["requestBody"]["content"][_JSON]["example"] = example["request"]
    operation["responses"][str(example["status"])]["content"][_JSON]["example"] = example["answer"]
