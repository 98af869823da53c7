"""Every plug-in of the scheduler has a page that names its kind and its parameters."""

from pathlib import Path
from typing import Any

import pytest

from scheduler.admission import ADMISSIONS
from scheduler.engine.policy import POLICIES
from scheduler.placement import PLACEMENTS
from scheduler.registry import Registry

PAGES = Path(__file__).parents[4] / "docs" / "policies"
REGISTRIES: list[Registry[Any]] = [POLICIES, PLACEMENTS, ADMISSIONS]
PLUGINS = [(registry, name) for registry in REGISTRIES for name in registry.names]


@pytest.mark.parametrize(("registry", "name"), PLUGINS, ids=[name for _, name in PLUGINS])
def test_a_plug_in_has_a_page_that_names_its_kind_and_its_parameters(registry: Registry[Any], name: str) -> None:
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# `{name}`: ")
    assert f"\nA {registry.kind.replace('admission', 'quota admission')}. " in page
    assert all(f"| `{parameter}` |" in page for parameter in registry.schema(name)["properties"])


@pytest.mark.parametrize(("registry", "name"), PLUGINS, ids=[name for _, name in PLUGINS])
def test_a_plug_in_explains_itself_in_one_line(registry: Registry[Any], name: str) -> None:
    summary = registry.summary(name)
    assert summary.endswith(".")
    assert 10 < len(summary) <= 110


def test_every_page_is_about_a_plug_in() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")} - {"writing"}  # which tells how to write another
    assert pages == {name for _, name in PLUGINS}
