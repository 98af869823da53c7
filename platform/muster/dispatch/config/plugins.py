"""The plug-ins that a pool's settings may name, and the validation of settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from scheduler.admission import ADMISSIONS
from scheduler.engine.cycle import CycleConfig, compose
from scheduler.engine.policy import POLICIES
from scheduler.placement import PLACEMENTS
from scheduler.registry import ConfigError, Registry, check_params

KINDS: Mapping[str, Registry[Any]] = {"policy": POLICIES, "placement": PLACEMENTS, "admission": ADMISSIONS}

SETTINGS = tuple(name for kind in KINDS for name in (kind, f"{kind}_params"))
"""The columns of a pool with the plug-ins and their parameters."""


def has_cells(admission: str) -> bool:
    """True if virtual clusters have cells in place of quotas under this admission."""
    return ADMISSIONS.has(admission, "has_cells")


def made(kind: str, name: str, params: Mapping[str, Any]) -> Any:
    """The plug-in with these parameters; None if it does not exist, or does not accept them."""
    try:
        return KINDS[kind].make(name, params)
    except ConfigError:
        return None


def parameters(kind: str, name: str) -> Mapping[str, Mapping[str, Any]]:
    """The JSON Schema of each parameter of a plug-in, by its name."""
    properties: Mapping[str, Mapping[str, Any]] = KINDS[kind].schema(name)["properties"]
    return properties


def objections(kind: str, name: object, params: object) -> Iterator[tuple[str, str]]:
    """The errors of a plug-in and its parameters: the setting, with the parameter after a dot, and a sentence."""
    registry = KINDS[kind]
    if name not in registry.names:
        yield kind, f"there is no {kind} {str(name)[:60]!r}; there is {', '.join(registry.names)}"
        return
    if not isinstance(params, Mapping):
        yield f"{kind}_params", "write an object, such as {}"
        return
    wrong = False
    for key, value in params.items():
        try:
            check_params(registry.schema(str(name)), {key: value})
        except ConfigError as error:
            wrong = True
            yield f"{kind}_params.{key}", str(error)
    if not wrong:
        try:
            registry.make(str(name), params)
        except ConfigError as error:
            yield f"{kind}_params", str(error)


def clash(settings: Mapping[str, Any]) -> str:
    """The reason why the plug-ins of valid settings do not go together; empty if they do."""
    try:
        compose(CycleConfig(**{name: settings[name] for name in SETTINGS}))
    except ConfigError as error:
        return str(error)
    return ""
