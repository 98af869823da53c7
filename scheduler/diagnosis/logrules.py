"""Operators' rules on the output of running jobs: which lines match, for which jobs, and what to do. Pure.

One RE2 automaton holds all rules and scans a piece of a log in time proportional to its length; single rules are tried
only where the automaton finds a match. The automaton is one pattern of alternatives, not an RE2 set: a set that runs
out of memory reports no match, while a pattern only gets slower.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import re2

from scheduler.diagnosis.patterns import RuleError, load_rules, options_of, proven, source_of

MAX_RULES = 200
MAX_LINE_BYTES = 4096
"""Bytes of a line that are matched at once: the newest part of a longer one, with the output that follows."""
EVIDENCE_CHARS = 400
_FIELDS = frozenset({"match", "unless", "line", "actions", "pool", "tenant"})
_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.")


class Action(StrEnum):
    """Actions for a job with a matching line."""

    CANCEL = "cancel"
    """The job is stopped and not tried again."""
    EXCLUDE_NODE = "exclude_node"
    """The job's further tries avoid the node."""
    STRIKE = "strike"
    """The node gets a strike."""
    NOTIFY_OWNER = "notify_owner"
    NOTIFY_OPERATORS = "notify_operators"


@dataclass(frozen=True, slots=True)
class LogRule:
    """One rule; without a pool or a tenant it applies to all of them."""

    name: str
    match: str
    line: str
    actions: tuple[Action, ...]
    unless: str = ""
    pool: str = ""
    tenant: str = ""
    pattern: Any = field(default=None, compare=False, repr=False)
    exception: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class LogRules:
    """The compiled rules of an operator."""

    rules: Sequence[LogRule]
    prefilter: Any = field(default=None, compare=False, repr=False)

    def matches(self, text: bytes, *, without: Collection[str] = ()) -> list[tuple[LogRule, str]]:
        """The rules that match a whole line of the text, each with its first such line."""
        if self.prefilter is None:
            return []
        text = text.replace(b"\r", b"\n")
        first = self.prefilter.search(text)
        if first is None:
            return []
        begin = text.rfind(b"\n", 0, first.start() + 1) + 1
        found = [(rule, _line_of(rule, text, begin)) for rule in self.rules if rule.name not in without]
        return [(rule, line) for rule, line in found if line is not None]


def read_log_rules(text: str) -> LogRules:
    """The rules in an operator's YAML, a mapping of names to rules.

    Raises RuleError, which names the rule and its field.
    """
    if not text.strip():
        return LogRules(())
    document = load_rules(text, "the rules", "names to rules, such as hang: {match: …, line: …}")
    if len(document) > MAX_RULES:
        raise RuleError(f"there are {len(document)} rules; at most {MAX_RULES} are allowed")
    rules = [_rule(name, body) for name, body in document.items()]
    if not rules:
        return LogRules(())
    joined = "|".join(f"(?:{rule.match})" for rule in rules)
    try:
        prefilter = re2.compile(source_of(joined), options_of(memory_bytes=64 << 20))
    except re2.error as error:
        raise RuleError(f"all rules together are too large: {error}") from None
    return LogRules(tuple(rules), prefilter)


def _rule(name: str, body: Any) -> LogRule:
    if not name or len(name) > 60 or not set(name) <= _NAME_CHARS:
        raise RuleError(f"rule {name[:60]!r}: its name must be 1 to 60 small letters, digits and -_.")
    if not isinstance(body, dict):
        raise RuleError(f"rule {name!r}: must be a mapping")
    return LogRule(
        **proven(name, body, _FIELDS, lists={"actions"}),
        actions=_actions(name, body.get("actions")),
        pool=body.get("pool", ""),
        tenant=body.get("tenant", ""),
    )


def _actions(name: str, value: Any) -> tuple[Action, ...]:
    words = [action.value for action in Action]
    if not isinstance(value, list) or not value:
        raise RuleError(f"rule {name!r}: actions: must be a list of some of {', '.join(words)}")
    for word in value:
        if word not in words:
            raise RuleError(f"rule {name!r}: actions: must be of {', '.join(words)}, not {word!r}")
    return tuple(action for action in Action if action.value in value)


def _line_of(rule: LogRule, text: bytes, begin: int) -> str | None:
    """The first line that the rule matches, printable; of a long line the part around the match."""
    at = begin
    while at < len(text):
        hit = rule.pattern.search(text, at)
        if hit is None:
            return None
        # \s at the start of a pattern may match the line end before
        origin = hit.start() + (text[hit.start() : hit.start() + 1] == b"\n")
        start = text.rfind(b"\n", 0, origin) + 1
        end = text.find(b"\n", origin)
        end = len(text) if end < 0 else end
        line = text[start:end]
        # A pattern may match across a line end; only a match within one line counts.
        inside = rule.pattern.search(line)
        if inside is not None and (rule.exception is None or rule.exception.search(line[-MAX_LINE_BYTES:]) is None):
            middle = max(0, inside.start() - EVIDENCE_CHARS // 4)
            piece = line[middle : middle + EVIDENCE_CHARS].decode("utf-8", errors="replace")
            return "".join(char if char.isprintable() else " " for char in piece)
        at = end + 1
    return None
