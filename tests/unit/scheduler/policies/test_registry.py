"""Plug-ins are found by their module's name, and their parameters are checked against their schema."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from scheduler.admission import ADMISSIONS
from scheduler.admission.quota import Quota
from scheduler.engine.cycle import CycleConfig, Profile, compose
from scheduler.engine.policy import POLICIES
from scheduler.model.codec import from_json, to_json
from scheduler.placement import PLACEMENTS
from scheduler.placement.consolidate import Consolidate
from scheduler.policies.fifo import Fifo
from scheduler.registry import ConfigError, Registry, check_params, param, params_of_fields
from tests.plugins.installed import install

REGISTRIES: list[Registry[Any]] = [POLICIES, PLACEMENTS, ADMISSIONS]


def test_modules_and_packages_are_the_plug_ins() -> None:
    assert "fifo" in POLICIES.names
    assert "consolidate" in PLACEMENTS.names
    assert {"quota", "tree"} <= set(ADMISSIONS.names)


def test_a_schema_follows_from_the_fields_own_ones_first() -> None:
    @dataclass(frozen=True)
    class Base:
        params_schema: ClassVar[Mapping[str, Any]] = params_of_fields()
        wait_s: float | None = param(60, "How long.", minimum=1)

    @dataclass(frozen=True)
    class Plugin(Base):
        kind: str = param("a", "Which.", enum=["a", "b"])
        limits: Sequence[float] = param((1.0,), "Up to.", items={"type": "number"})
        prices: Mapping[str, float] = param({}, "By type.")
        state: int = 0

    assert Plugin().prices == {}
    assert Plugin.params_schema == {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["a", "b"], "default": "a", "description": "Which."},
            "limits": {"type": "array", "items": {"type": "number"}, "default": [1.0], "description": "Up to."},
            "prices": {"type": "object", "default": {}, "description": "By type."},
            "wait_s": {"type": ["number", "null"], "minimum": 1, "default": 60, "description": "How long."},
        },
        "additionalProperties": False,
    }
    assert list(Plugin.params_schema["properties"]) == ["kind", "limits", "prices", "wait_s"]


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.kind)
def test_every_plug_in_works_with_the_defaults_of_its_schema(registry: Registry[Any]) -> None:
    for name in registry.names:
        schema = registry.schema(name)
        json.dumps(schema)
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        defaults = {key: rules["default"] for key, rules in schema["properties"].items()}
        assert registry.make(name, defaults) == registry.make(name, {})


def test_a_configuration_is_composed_by_name() -> None:
    assert compose(CycleConfig()) == Profile(Fifo(), Consolidate(), Quota(), policy_name="fifo")
    assert compose(CycleConfig(policy_params={"patience_s": 5})).policy == Fifo(patience_s=5)


def test_a_configuration_survives_the_trip_through_json() -> None:
    config = CycleConfig(policy_params={"skip_blocked": False, "patience_s": None}, max_places=7)
    assert from_json(CycleConfig, json.loads(json.dumps(to_json(config)))) == config


WRONG: dict[str, tuple[CycleConfig, str]] = {
    "a policy that does not exist": (CycleConfig(policy="lifo"), "there is no policy 'lifo'; there is "),
    "a placement that does not exist": (CycleConfig(placement="x"), "there is no placement 'x'"),
    "an admission that does not exist": (CycleConfig(admission="free"), "there is no admission 'free'"),
    "a module of the package that is no plug-in": (
        CycleConfig(placement="shortage"),
        "there is no placement 'shortage'",
    ),
    "a limit that lets nothing start": (CycleConfig(max_places=0), "max_places must be at least 1, not 0"),
    "an unknown parameter": (
        CycleConfig(policy_params={"speed": 1}),
        "policy fifo: unknown parameter 'speed'; known: patience_s, skip_blocked",
    ),
    "a parameter for an admission that has none": (
        CycleConfig(admission_params={"soft": True}),
        "admission quota: unknown parameter 'soft'; known: none",
    ),
    "a number for a boolean": (
        CycleConfig(policy_params={"skip_blocked": 1}),
        "policy fifo: skip_blocked must be boolean, not 1",
    ),
    "a boolean for a number": (
        CycleConfig(policy_params={"patience_s": True}),
        "policy fifo: patience_s must be number or null, not True",
    ),
    "a number below the minimum": (
        CycleConfig(policy_params={"patience_s": -1}),
        "policy fifo: patience_s must be at least 0, not -1",
    ),
    "not a number": (
        CycleConfig(policy_params={"patience_s": float("nan")}),
        "policy fifo: patience_s must be number or null, not nan",
    ),
}


@pytest.mark.parametrize(("config", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_configuration_names_what_is_wrong(config: CycleConfig, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compose(config)
    assert str(caught.value).startswith(message)


SCHEMA = {
    "type": "object",
    "properties": {
        "mode": {"type": "string", "enum": ["easy", "conservative"]},
        "knob": {"type": "integer", "minimum": 0, "maximum": 9},
        "odd": {"type": "string", "pattern": "^a"},
        "limits": {"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 1},
        "rows": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "part": {"type": "number", "maximum": 1}},
                "required": ["name"],
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
VALUES: dict[str, tuple[dict[str, object], str | None]] = {
    "nothing": ({}, None),
    "a choice": ({"mode": "easy"}, None),
    "the limits": ({"knob": 9}, None),
    "no choice": ({"mode": "hard"}, "mode must be one of ['easy', 'conservative'], not 'hard'"),
    "above the maximum": ({"knob": 10}, "knob must be at most 9, not 10"),
    "a float for an integer": ({"knob": 1.5}, "knob must be integer, not 1.5"),
    "rows of objects": ({"rows": [{"name": "a", "part": 0.5}, {"name": "b"}]}, None),
    "a row that is not an object": ({"rows": ["a"]}, "rows[0] must be object, not 'a'"),
    "an unknown field": ({"rows": [{"name": "a", "x": 1}]}, "rows[0] has no 'x'; known: name, part"),
    "a field of the wrong type": ({"rows": [{"name": 1}]}, "rows[0].name must be string, not 1"),
    "a field out of bounds": ({"rows": [{"name": "a"}, {"name": "b", "part": 2}]}, "rows[1].part must be at most 1"),
    "a row without what it must have": ({"rows": [{"part": 1}]}, "rows[0] must have a 'name'"),
    "a list": ({"limits": [1, 2.5]}, None),
    "an empty list where one item is needed": (
        {"limits": []},
        "limits must have at least as many items as 1, not []",
    ),
    "one wrong item of a list": ({"limits": [1, -1]}, "limits[1] must be at least 0, not -1"),
    "a number for a list": ({"limits": 1}, "limits must be array, not 1"),
    "a rule that the check does not know": ({"odd": "b"}, "odd: the schema uses 'pattern'"),
}


@pytest.mark.parametrize(("params", "message"), VALUES.values(), ids=VALUES)
def test_parameters_are_held_against_the_schema(params: dict[str, object], message: str | None) -> None:
    if message is None:
        check_params(SCHEMA, params)
        return
    with pytest.raises(ConfigError) as caught:
        check_params(SCHEMA, params)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.kind)
def test_no_plug_in_of_ours_is_broken(registry: Registry[Any]) -> None:
    assert registry.broken == {}


def test_a_plug_in_that_cannot_be_loaded_takes_no_other_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "fine": "class PLUGIN:\n    params_schema = {}",
        "torn": "import no_such_module",
        "empty": "",
        "bare": "PLUGIN = object",
    }.items():
        folder = tmp_path / "some_plugins" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(text)
    (tmp_path / "some_plugins" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    registry: Registry[Any] = Registry("policy", "some_plugins")
    assert registry.names == ("fine",)
    assert registry.broken.keys() == {"torn", "empty", "bare"}
    assert registry.broken["bare"] == "some_plugins.bare is no policy: it has no params_schema"
    with pytest.raises(
        ConfigError, match=r"policy torn cannot be loaded: some_plugins\.torn: ModuleNotFoundError: No mod"
    ):
        registry.make("torn", {})


FIRST = """
from scheduler.authoring import CyclePolicy

class First(CyclePolicy):
    \"""Starts the job with the smallest id.\"""

    def decide(self, cycle):
        for job in cycle.waiting()[:1]:
            cycle.place(job)
"""


def policies() -> Registry[Any]:
    return Registry(POLICIES.kind, POLICIES.package, group=POLICIES.group, needs=POLICIES.needs)


def test_an_installed_distribution_adds_a_plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "first-come", FIRST, {"muster.policies": "first_come = first_come:First"})
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = policies()
    assert {"first_come", "fifo"} <= set(registry.names)
    assert registry.summary("first_come") == "Starts the job with the smallest id."
    assert type(registry.make("first_come", {})).__name__ == "First"
    assert registry.broken == {}


BROKEN = {
    "a module that it needs is missing": (
        "import no_such_module",
        "torn_one:First",
        r"torn_one:First of torn-one: ModuleNotFoundError: No module named 'no_such_module'",
    ),
    "the class is missing": ("", "torn_one:First", r"torn_one:First of torn-one: AttributeError: .*First"),
    "the class is no policy": (
        "class First: params_schema = {}",
        "torn_one:First",
        r"torn_one:First of torn-one is no policy: it has no serve, order, waiting_key, next_change",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_an_installed_plug_in_that_cannot_be_loaded_is_named_with_its_distribution(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, point, words = BROKEN[what]
    install(tmp_path, "torn-one", module, {"muster.policies": f"torn = {point}"})
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "torn_one", raising=False)
    registry = policies()
    assert "fifo" in registry.names
    with pytest.raises(ConfigError, match=f"policy torn cannot be loaded: {words}"):
        registry.make("torn", {})
    monkeypatch.delitem(sys.modules, "torn_one", raising=False)


def test_a_name_that_is_taken_names_both_and_ours_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, plugin in (("mine-a", "fifo"), ("mine-b", "twice"), ("mine-c", "twice")):
        point = f"{plugin} = {name.replace('-', '_')}:First"
        monkeypatch.syspath_prepend(str(install(tmp_path / name, name, FIRST, {"muster.policies": point})))
    registry = policies()
    assert isinstance(registry.make("fifo", {}), Fifo)
    assert registry.broken == {
        "fifo of mine_a:First of mine-a": "scheduler.policies.fifo has this name",
        "twice": "mine_b:First of mine-b and mine_c:First of mine-c both have this name",
    }
