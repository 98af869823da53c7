"""The typed dictionaries of `muster_client.answers` as components of the OpenAPI document."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.plumbing import append_meta, build_object_type, deep_import_string, load_enum_name_overrides
from drf_spectacular.settings import spectacular_settings

from muster_client.answers.terms import OneOf

Json = dict[str, Any]

_PLAIN: dict[Any, Json] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number", "format": "double"},
}


class Answer(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """A typed dictionary as a component: its name, its docstring, and its fields with their sentences."""

    @classmethod
    def _matches(cls, target: Any) -> bool:
        return is_typeddict(target)

    def get_name(self, auto_schema: Any, direction: Any) -> str:
        """The name of the component."""
        return str(self.target.__name__)

    def map_serializer(self, auto_schema: Any, direction: Any) -> Json:
        """The schema of the component."""
        return component_of(self.target, lambda answer: auto_schema.resolve_serializer(answer, direction).ref)


def component_of(answer: Any, refer: Callable[[Any], Json]) -> Json:
    """The schema of a typed dictionary; `refer` returns the reference to another one."""
    hints = get_type_hints(answer, include_extras=True)
    schema: Json = build_object_type(
        description=inspect.cleandoc(answer.__doc__ or ""),
        properties={name: schema_of(hint, refer) for name, hint in hints.items()},
        required=[name for name, hint in hints.items() if get_origin(hint) is not NotRequired],
    )
    return schema


def schema_of(hint: Any, refer: Callable[[Any], Json]) -> Json:
    """The JSON schema of a type; `refer` returns the reference to a typed dictionary."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is NotRequired:
        return schema_of(parts[0], refer)
    if origin is Annotated:
        schema = schema_of(parts[0], refer)
        for note in parts[1:]:
            schema = _with(note, schema)
    elif origin in (Union, UnionType):
        (present,) = (part for part in parts if part is not NoneType)
        schema = schema_of(present, refer)
        nothing = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
        schema = append_meta(schema | nothing, {"nullable": True})
    elif origin is list:
        schema = {"type": "array", "items": schema_of(parts[0], refer)}
    elif origin in (dict, Mapping):
        schema = {"type": "object", "additionalProperties": {} if parts[1] is Any else schema_of(parts[1], refer)}
    elif origin is Literal:
        schema = {"type": "string", "enum": list(parts)}
    elif is_typeddict(hint):
        schema = refer(hint)
    else:
        schema = dict(_PLAIN[hint])
    return schema


def _with(note: Any, schema: Json) -> Json:
    """The schema with what an annotation adds to it."""
    if isinstance(note, str):
        return append_meta(schema, {"description": note})
    if isinstance(note, OneOf):
        return schema | _enum(note.name)
    keywords: Json = note.keywords
    return {"$ref": f"#/components/schemas/{keywords['ref']}"} if "ref" in keywords else schema | keywords


def _enum(name: str) -> Json:
    """The values of the enum that the settings give this name, with the mark by which the document finds it again."""
    values: Any = spectacular_settings.ENUM_NAME_OVERRIDES[name]
    if isinstance(values, str):
        values = deep_import_string(values)
    marks: dict[str, str] = load_enum_name_overrides()  # type: ignore[no-untyped-call]
    (mark,) = (mark for mark, known in marks.items() if known == name)
    texts = [one.value if isinstance(one, Enum) else one for one in values]
    return {"enum": [text for text in texts if text], "x-spec-enum-id": mark}
