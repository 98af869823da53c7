"""Shared parts of the rules for failures and for logs: YAML of text, and RE2 patterns that an example line proves."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import re2

from scheduler.documents import DocumentError, load_yaml

MAX_PATTERN_BYTES = 6000
"""The length limit of a pattern in bytes; RE2 itself bounds the memory of the compiled one."""


class RuleError(ValueError):
    """A rule that cannot be used; the message names the rule and its field."""


def load_rules(text: str, where: str, wanted: str) -> dict[str, Any]:
    """The mapping in the YAML; all scalars are text, so that `no` stays a word."""
    try:
        document = load_yaml(text, only_text=True)
    except DocumentError as error:
        raise RuleError(f"{where}: {error}") from None
    if not isinstance(document, dict):
        raise RuleError(f"{where} must be a mapping of {wanted}")
    return document


def source_of(pattern: str) -> bytes:
    """The pattern for bytes, with `^` and `$` at lines."""
    return f"(?m){pattern}".encode()


def options_of(*, memory_bytes: int = 8 << 20, case_sensitive: bool = False) -> Any:
    """The options of every pattern, with bounded memory."""
    options = re2.Options()
    # any bytes are valid text; non-ASCII letters of patterns match as bytes
    options.encoding = re2.Options.Encoding.LATIN1
    options.case_sensitive = case_sensitive
    options.log_errors = False
    options.max_mem = memory_bytes
    return options


def proven(name: str, body: dict[str, Any], fields: Collection[str], *, lists: Collection[str] = ()) -> dict[str, Any]:
    """The name, the texts and the compiled patterns of a rule whose example line matches.

    Raises:
        RuleError: names the rule and its field.
    """
    for key, value in body.items():
        if key not in fields:
            raise RuleError(f"rule {name!r}: {key}: unknown field; the fields are {', '.join(sorted(fields))}")
        if key not in lists and not isinstance(value, str):
            raise RuleError(f"rule {name!r}: {key}: must be a string")
    for key in ("match", "line"):
        if not body.get(key):
            raise RuleError(f"rule {name!r}: {key}: is missing")
    match, unless, line = body["match"], body.get("unless", ""), body["line"]
    pattern = _compiled(match, name, "match")
    exception = _compiled(unless, name, "unless") if unless else None
    if pattern.search(b""):
        raise RuleError(f"rule {name!r}: match: matches the empty line and so every line")
    if not pattern.search(line.encode()):
        raise RuleError(f"rule {name!r}: line: the rule does not match it")
    if exception is not None and exception.search(line.encode()):
        raise RuleError(f"rule {name!r}: line: `unless` excludes it")
    return {"name": name, "match": match, "unless": unless, "line": line, "pattern": pattern, "exception": exception}


def _compiled(pattern: str, rule: str, field: str) -> Any:
    if len(pattern) > MAX_PATTERN_BYTES:
        raise RuleError(f"rule {rule!r}: {field}: is longer than {MAX_PATTERN_BYTES} characters")
    try:
        return re2.compile(source_of(pattern), options_of())
    except re2.error as error:
        said = error.args[0] if error.args else error
        told = said.decode("latin-1") if isinstance(said, bytes) else str(said)
        raise RuleError(f"rule {rule!r}: {field}: is not a valid pattern: {told}") from None
