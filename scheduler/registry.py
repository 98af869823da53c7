"""The registry of plug-ins, by name.

Our own plug-ins are modules or packages in the package of their kind: the name is the plug-in's, and the class is
exported as `PLUGIN`. An installed distribution adds plug-ins by entry points of a group such as `muster.policies`;
each names a class. The class has a `params_schema`, a JSON Schema of an object, and takes the parameters as keyword
arguments: a dataclass declares them with `param`. Adding a plug-in edits no other file.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields, is_dataclass
from functools import cache, cached_property, partial
from importlib.metadata import EntryPoint, entry_points
from types import NoneType, UnionType
from typing import Any, Generic, Protocol, TypeVar, cast, get_args, get_origin, get_type_hints


class ConfigError(ValueError):
    """An unknown or broken plug-in, or a wrong parameter; the message names it."""


class Plugin(Protocol):
    """The interface of every plug-in."""

    @property
    def params_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the parameters."""


P = TypeVar("P", bound=Plugin)
T = TypeVar("T")


class Registry(Generic[P]):
    """The plug-ins of one kind: those in a package, and those of installed distributions.

    A class without one of the methods that `needs` names is no such plug-in. Without a `group`, none come from outside.
    """

    def __init__(self, kind: str, package: str, *, group: str = "", needs: tuple[str, ...] = ()) -> None:
        self.kind, self.package, self.group, self.needs = kind, package, group, needs
        self._broken: dict[str, str] = {}  # plug-in name -> load error

    @property
    def broken(self) -> Mapping[str, str]:
        """The load errors of broken plug-ins, by name."""
        return dict(self._broken) if self._classes else {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all plug-ins of this kind, sorted."""
        return tuple(sorted(self._classes))

    def schema(self, name: str) -> Mapping[str, Any]:
        """The JSON Schema of the parameters of one plug-in."""
        return cast("Mapping[str, Any]", self._class(name).params_schema)

    def summary(self, name: str) -> str:
        """A sentence about the plug-in: the first line of the docstring of its package or, from outside, its class."""
        plugin = self._class(name)
        inside = plugin.__module__.startswith(f"{self.package}.")
        documented = importlib.import_module(f"{self.package}.{name}") if inside else plugin
        return (documented.__doc__ or "").strip().partition("\n")[0]

    def make(self, name: str, params: Mapping[str, object]) -> P:
        """The plug-in with these parameters; missing ones take their defaults.

        Raises:
            ConfigError: the plug-in is unknown or broken, or a parameter is wrong.
        """
        schema = self.schema(name)
        try:
            check_params(schema, params)
        except ConfigError as error:
            raise ConfigError(f"{self.kind} {name}: {error}") from None
        return cast(P, self._class(name)(**params))

    def has(self, name: str, trait: str) -> bool:
        """True if the class of the plug-in has the trait, as `chooses_gpus`; False for an unknown plug-in."""
        return bool(getattr(self._classes.get(name), trait, False))

    def _class(self, name: str) -> Any:
        if name not in self._classes and name in self._broken:
            raise ConfigError(f"{self.kind} {name} cannot be loaded: {self._broken[name]}")
        if name not in self._classes:
            raise ConfigError(f"there is no {self.kind} {name!r}; there is {', '.join(self.names)}")
        return self._classes[name]

    @cached_property
    def _classes(self) -> Mapping[str, Any]:
        # Load on first use: plug-ins import the package of their kind, which is complete by then.
        found: dict[str, Any] = {}
        for one in pkgutil.iter_modules(importlib.import_module(self.package).__path__):
            module = f"{self.package}.{one.name}"
            self._load(found, one.name, module, partial(_plugin_in, module, required=one.ispkg))
        outside: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=self.group) if self.group else ():
            outside.setdefault(point.name, []).append(point)
        for name, points in sorted(outside.items()):
            sources = sorted(_source(point) for point in points)
            if name in found or name in self._broken:  # ours stays in use: pools decide by it
                self._broken[f"{name} of {', '.join(sources)}"] = f"{self.package}.{name} has this name"
            elif len(points) > 1:
                self._broken[name] = f"{' and '.join(sources)} both have this name"
            else:
                self._load(found, name, sources[0], points[0].load)
        return found

    def _load(self, found: dict[str, Any], name: str, source: str, load: Callable[[], Any]) -> None:
        try:
            plugin = load()
        except Exception as error:  # noqa: BLE001 - one broken plug-in must not hide the others
            self._broken[name] = f"{source}: {type(error).__name__}: {error}"
            return
        if plugin is None:
            return
        missing = [needed for needed in ("params_schema", *self.needs) if not hasattr(plugin, needed)]
        if missing:
            self._broken[name] = f"{source} is no {self.kind}: it has no {', '.join(missing)}"
        else:
            found[name] = plugin


def _plugin_in(module: str, *, required: bool) -> Any:
    """The plug-in of a package, or of a module; None if a module has none, since it may hold what plug-ins share."""
    imported = importlib.import_module(module)
    return imported.PLUGIN if required else getattr(imported, "PLUGIN", None)


def _source(point: EntryPoint) -> str:
    """The class and the distribution of an entry point, in words."""
    return f"{point.value} of {point.dist.name if point.dist is not None else 'no distribution'}"


def param(default: T, description: str, *, hash: bool | None = None, **rules: object) -> T:  # noqa: A002 - as `field`
    """A field of a plug-in's dataclass that is a parameter; `rules` are further keywords of its JSON Schema."""
    plain = list(default) if isinstance(default, tuple) else default
    metadata = {**rules, "default": plain, "description": description}
    if isinstance(default, Mapping):
        return cast(T, field(default_factory=lambda: default, metadata=metadata, hash=hash))
    return field(default=default, metadata=metadata, hash=hash)


class _ParamsSchema:
    """The JSON Schema of the parameters of the class that is asked: its own first, then those of its bases."""

    def __get__(self, plugin: object, owner: type) -> Mapping[str, Any]:
        return _schema_of(owner)


def params_of_fields() -> Mapping[str, Any]:
    """A `params_schema` made of the fields that the class and its bases declare with `param`."""
    return cast("Mapping[str, Any]", _ParamsSchema())


@cache
def _schema_of(plugin: type) -> Mapping[str, Any]:
    hints = get_type_hints(plugin)
    found = {one.name: one.metadata for one in (fields(plugin) if is_dataclass(plugin) else ()) if one.metadata}
    declared = [name for owner in plugin.__mro__ for name in inspect.get_annotations(owner) if name in found]
    properties = {name: {"type": _json_type(hints[name]), **found[name]} for name in dict.fromkeys(declared)}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _json_type(hint: Any) -> str | list[str]:
    kinds = [
        _JSON_TYPES[get_origin(each) or each] for each in (get_args(hint) if isinstance(hint, UnionType) else (hint,))
    ]
    return kinds[0] if len(kinds) == 1 else kinds


_JSON_TYPES: Mapping[type, str] = {
    bool: "boolean", int: "integer", float: "number", str: "string",
    NoneType: "null", Mapping: "object", Sequence: "array",
}  # fmt: skip

# The part of JSON Schema that parameters need. A schema with another keyword raises an error: ignoring a rule that an
# author wrote would be worse.
_TYPES: Mapping[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "null": (type(None),),
    "object": (Mapping,),
    "array": (list, tuple),
}
_RULES: Mapping[str, tuple[Callable[[Any, Any], bool], str]] = {
    "minimum": (lambda value, limit: value >= limit, "must be at least"),
    "maximum": (lambda value, limit: value <= limit, "must be at most"),
    "enum": (lambda value, choices: value in choices, "must be one of"),
    "minItems": (lambda value, least: len(value) >= least, "must have at least as many items as"),
}
_PROSE = frozenset({"title", "description", "default"})


def check_params(schema: Mapping[str, Any], params: Mapping[str, object]) -> None:
    """Check parameters against their schema.

    Raises:
        ConfigError: a parameter does not fit; the message names the first one.
    """
    properties: Mapping[str, Mapping[str, Any]] = schema["properties"]
    for name, value in params.items():
        if name not in properties:
            known = ", ".join(sorted(properties)) or "none"
            raise ConfigError(f"unknown parameter {name!r}; known: {known}")
        _check_value(name, properties[name], value)


def _check_value(name: str, rules: Mapping[str, Any], value: object) -> None:
    kinds = [rules["type"]] if isinstance(rules["type"], str) else list(rules["type"])
    if not any(_is_a(kind, value) for kind in kinds):
        raise ConfigError(f"{name} must be {' or '.join(kinds)}, not {value!r}")
    for keyword, operand in rules.items():
        if keyword == "type" or keyword in _PROSE:
            continue
        if keyword == "items":
            for position, item in enumerate(value if isinstance(value, list | tuple) else ()):
                _check_value(f"{name}[{position}]", operand, item)
            continue
        if keyword == "properties":
            _check_object(name, rules, value if isinstance(value, Mapping) else {})
            continue
        if keyword in ("required", "additionalProperties"):  # checked with the properties
            continue
        if keyword not in _RULES:
            raise ConfigError(f"{name}: the schema uses {keyword!r}, which parameter schemas do not support")
        holds, words = _RULES[keyword]
        if value is not None and not holds(value, operand):
            raise ConfigError(f"{name} {words} {operand}, not {value!r}")


def _check_object(name: str, rules: Mapping[str, Any], value: Mapping[str, object]) -> None:
    """Check the fields of an object; unknown fields are errors, as they are for parameters."""
    properties: Mapping[str, Mapping[str, Any]] = rules["properties"]
    for key, inner in value.items():
        if key not in properties:
            raise ConfigError(f"{name} has no {key!r}; known: {', '.join(sorted(properties))}")
        _check_value(f"{name}.{key}", properties[key], inner)
    for key in rules.get("required", ()):
        if key not in value:
            raise ConfigError(f"{name} must have a {key!r}")


def _is_a(kind: str, value: object) -> bool:
    # bool is a subclass of int in Python, but `true` is not a number in JSON.
    if isinstance(value, bool):
        return kind == "boolean"
    if isinstance(value, float) and not math.isfinite(value):  # not JSON, and NaN would pass every limit
        return False
    return isinstance(value, _TYPES[kind])
