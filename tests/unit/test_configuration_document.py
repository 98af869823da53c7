"""docs/operator/configuration.md names every variable that the code reads or gives to a job."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "operator" / "configuration.md").read_text()
SETTINGS = ("platform/muster/settings/__init__.py", "platform/muster/settings/env.py")
NAME = re.compile(r'"(MUSTER_[A-Z_]*[A-Z]|DATABASE_URL|REDIS_URL|PORT|MASTER_[A-Z]+|[A-Z]+_VISIBLE_DEVICES)"')


def names_in(*places: str) -> set[str]:
    return {name for place in places for name in NAME.findall((ROOT / place).read_text())}


@pytest.mark.parametrize(
    "name",
    sorted(
        names_in(*SETTINGS, "platform/muster/agents/launch.py", "nodeagent/cli/serving.py")
        | {"CUDA_VISIBLE_DEVICES", "MUSTER_WORKDIR"}
    ),
)
def test_a_variable_is_documented(name: str) -> None:
    assert f"`{name}`" in DOCUMENT


def test_the_code_is_read_at_all() -> None:
    assert {"MUSTER_HOME", "DATABASE_URL"} <= names_in(*SETTINGS)


def test_no_variable_is_documented_that_nothing_knows() -> None:
    code = "".join(
        path.read_text() for folder in ("platform", "nodeagent", "scheduler") for path in (ROOT / folder).rglob("*.py")
    )
    code += (ROOT / "docker-compose.yml").read_text()
    documented = set(re.findall(r"`((?:MUSTER|DATABASE|REDIS)_[A-Z_]+)`", DOCUMENT))
    assert {name for name in documented if name not in code} == set()
