"""Strict reading and plain writing of frozen dataclasses as JSON objects.

Reading names the offending field in a `ProtocolError`. Unknown keys are ignored and fields with a default may be
missing, so that neighbouring versions understand each other. A float field takes a JSON integer; an integer field
takes no float and no boolean; NaN, infinities, integers beyond 64 bits, NUL characters and lone surrogates are
refused, since a database would.
"""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import json
import math
import re
from enum import Enum
from typing import (
    Any,
    Callable,
    Dict,
    Mapping,
    Optional,
    Tuple,
    Type,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

MAX_DETAIL_CHARACTERS = 4096
"""The longest sentence for people in a message; writing cuts longer ones."""

_INT64 = 1 << 63
# Control characters, line and paragraph separators, and marks that change the direction of text. It is a list and not
# `str.isprintable`, whose answer depends on the version of Python on each side.
_UNPRINTABLE = re.compile("[\\x00-\\x1f\\x7f-\\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")
_IP_CHARACTERS = re.compile(r"[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?")
_MAX_ADDRESS_CHARACTERS = 255


class ProtocolError(ValueError):
    """A message that breaks the wire format; `field` is the path of the offending field, such as `gpus[0].uuid`."""

    def __init__(self, field_path: str, problem: str) -> None:
        self.field = field_path
        self.problem = problem
        super().__init__("{}: {}".format(field_path or "message", problem))


M = TypeVar("M", bound="Message")

_Reader = Callable[[Any, str], Any]
_Writer = Optional[Callable[[Any], Any]]
_Codec = Tuple[Tuple[str, bool, _Reader, _Writer], ...]
_CODECS: Dict[type, _Codec] = {}


class _Text:
    """Requirements on the strings of a field, as the field's metadata."""

    def __init__(self, problem_of: Callable[[str], Optional[str]], clean: Optional[Callable[[str], str]]) -> None:
        self.problem_of = problem_of
        self.clean = clean


def text(max_length: int) -> Mapping[str, Any]:
    """Metadata of a field with strings of one printable line, each of `max_length` characters at most."""

    def problem_of(value: str) -> Optional[str]:
        if len(value) > max_length:
            return "has {} characters; at most {} are allowed".format(len(value), max_length)
        found = _UNPRINTABLE.search(value)
        return "has the unprintable character U+{:04X}".format(ord(found[0])) if found else None

    return {"text": _Text(problem_of, None)}


def sentence(max_length: int) -> Mapping[str, Any]:
    """Metadata of a field like `text`, with words of others, such as an error of a container engine.

    Writing replaces what cannot be printed and cuts what is too long, so that what an honest agent sends can be read.
    """
    return {"text": _Text(text(max_length)["text"].problem_of, lambda value: _printable(value)[:max_length])}


def address() -> Mapping[str, Any]:
    """Metadata of a field with an IP address or a host name, or an empty string."""
    return {"text": _Text(_problem_of_address, None)}


def _problem_of_address(value: str) -> Optional[str]:
    if len(value) <= _MAX_ADDRESS_CHARACTERS:
        if not value or _HOST_NAME.fullmatch(value):
            return None
        # Python takes any text for the zone of an IPv6 address.
        if _IP_CHARACTERS.fullmatch(value):
            with contextlib.suppress(ValueError):
                ipaddress.ip_address(value)
                return None
    return "expected an IP address or a host name, got {!a:.80}".format(value)


def _printable(value: str) -> str:
    return _UNPRINTABLE.sub(lambda found: " " if found[0] in "\t\r\n" else ascii(found[0])[1:-1], value)


class Message:
    """A frozen dataclass that travels as a JSON object."""

    def to_dict(self) -> Dict[str, Any]:
        """The message in plain JSON types."""
        return {
            name: getattr(self, name) if write is None else write(getattr(self, name))
            for name, _, _, write in _codec(type(self))
        }

    @classmethod
    def from_dict(cls: Type[M], data: Any, path: str = "") -> M:
        """The message that `data` spells, or a `ProtocolError` that names the first wrong field."""
        if not isinstance(data, dict):
            raise ProtocolError(path, "expected an object, got " + _kind(data))
        values: Dict[str, Any] = {}
        prefix = path + "." if path else ""
        for name, required, read, _ in _codec(cls):
            if name in data:
                values[name] = read(data[name], prefix + name)
            elif required:
                raise ProtocolError(prefix + name, "is missing")
        return cls(**values)

    def to_json(self) -> bytes:
        """The message as a compact UTF-8 JSON body."""
        return json.dumps(self.to_dict(), separators=(",", ":"), allow_nan=False).encode()

    @classmethod
    def from_json(cls: Type[M], body: bytes) -> M:
        """The message that a JSON body spells, or a `ProtocolError`."""
        try:
            data = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ProtocolError("", "is not JSON: {}".format(error)) from error
        return cls.from_dict(data)


def _codec(cls: type) -> _Codec:
    codec = _CODECS.get(cls)
    if codec is None:
        codec = _CODECS[cls] = tuple(_build_codec(cls))
    return codec


def _build_codec(cls: type) -> Any:
    hints = get_type_hints(cls)
    for item in dataclasses.fields(cls):
        required = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
        read, write = _reader(hints[item.name]), _writer(hints[item.name])
        rule = item.metadata.get("text")
        if rule is not None:
            read = _checked(read, rule)
            write = rule.clean or write
        yield item.name, required, read, write


def _checked(read: _Reader, rule: _Text) -> _Reader:
    """The reader that also refuses strings which the rule does not allow."""

    def check(value: Any, path: str) -> None:
        if isinstance(value, str):
            problem = rule.problem_of(value)
            if problem is not None:
                raise ProtocolError(path, problem)
        elif isinstance(value, tuple):
            for position, item in enumerate(value):
                check(item, "{}[{}]".format(path, position))
        elif isinstance(value, Mapping):
            for key, item in value.items():
                check(key, path)
                check(item, "{}.{}".format(path, key))

    def checked(value: Any, path: str) -> Any:
        found = read(value, path)
        check(found, path)
        return found

    return checked


def _reader(hint: Any) -> _Reader:
    """The strict reader of one type; types that no message uses are a programming error."""
    simple: Dict[Any, _Reader] = {int: _read_int, float: _read_float, str: _read_str, bool: _read_bool}
    if hint in simple:
        return simple[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Union:
        inner = _reader(arguments[0])
        return lambda value, path: None if value is None else inner(value, path)
    if origin is tuple:
        return _list_reader(arguments)
    if origin is not None and issubclass(origin, Mapping):
        return _read_strings
    if issubclass(hint, Enum):
        return _enum_reader(hint)
    if issubclass(hint, Message):
        reader: _Reader = hint.from_dict
        return reader
    raise TypeError("no reader for {!r}".format(hint))


def _writer(hint: Any) -> _Writer:
    """The function that turns a value into plain JSON types, or None where it is one already."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Union:
        inner = _writer(arguments[0])
        return None if inner is None else (lambda value: None if value is None else inner(value))
    if origin is tuple:
        each = _writer(arguments[0])
        return list if each is None else (lambda value: [each(item) for item in value])
    if origin is not None:
        return dict
    if issubclass(hint, Enum):
        return lambda value: value.value
    if issubclass(hint, Message):
        return lambda value: value.to_dict()
    return None


def _list_reader(arguments: Tuple[Any, ...]) -> _Reader:
    """`Tuple[T, ...]` is a list of any length, `Tuple[T, T]` one of exactly two."""
    each = _reader(arguments[0])
    length = None if arguments[-1] is Ellipsis else len(arguments)

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, list):
            raise ProtocolError(path, "expected a list, got " + _kind(value))
        if length is not None and len(value) != length:
            raise ProtocolError(path, "expected {} items, got {}".format(length, len(value)))
        return tuple(each(item, "{}[{}]".format(path, position)) for position, item in enumerate(value))

    return read


def _enum_reader(enum: Type[Enum]) -> _Reader:
    members = {member.value: member for member in enum}

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, str) or value not in members:
            raise ProtocolError(path, "expected one of {}, got {!r:.80}".format(", ".join(sorted(members)), value))
        return members[value]

    return read


def _read_int(value: Any, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ProtocolError(path, "expected an integer, got " + _kind(value))
    if not -_INT64 <= value < _INT64:
        raise ProtocolError(path, "does not fit in 64 bits")
    return value


def _read_float(value: Any, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ProtocolError(path, "expected a number, got " + _kind(value))
    if isinstance(value, float) and not math.isfinite(value):
        raise ProtocolError(path, "is not finite")
    if not -_INT64 <= value < _INT64:
        raise ProtocolError(path, "is out of range")
    return float(value)


def _read_bool(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise ProtocolError(path, "expected true or false, got " + _kind(value))
    return value


def _read_str(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise ProtocolError(path, "expected a string, got " + _kind(value))
    if "\0" in value:
        raise ProtocolError(path, "has a NUL character")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ProtocolError(path, "is not valid Unicode") from error
    return value


def _read_strings(value: Any, path: str) -> Dict[str, str]:
    if not isinstance(value, dict):
        raise ProtocolError(path, "expected an object, got " + _kind(value))
    return {_read_str(key, path): _read_str(item, "{}.{}".format(path, key)) for key, item in value.items()}


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {
        bool: "a boolean",
        int: "an integer",
        float: "a number",
        str: "a string",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), type(value).__name__)


def is_digits(text: str) -> bool:
    """True if this is a number without a sign, at most as long as our largest."""
    return 0 < len(text) <= 18 and text.isascii() and text.isdigit()
