"""The failure rules: which log line points to which class. They are data in the folder `rules`, compiled once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import re2

from scheduler.diagnosis.failures.evidence import Category, Retry, Strength
from scheduler.diagnosis.patterns import RuleError, load_rules, options_of, proven, source_of

FOLDER = Path(__file__).parent / "rules"
NO_SIGNATURE = "no_signature"
_RULE_FIELDS = frozenset({"name", "match", "unless", "line", "as", "hint", "retry"})
_CLASS_FIELDS = frozenset({"category", "retry", "hint", "rules"})


@dataclass(frozen=True, slots=True)
class FailureClass:
    """One class of failures and its consequences."""

    name: str
    category: Category
    retry: Retry
    hint: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern that a line must match, one that it must not match, and an example line."""

    name: str
    failure: str
    match: str
    line: str
    unless: str = ""
    strength: Strength = Strength.CAUSE
    hint: str = ""
    retry: Retry | None = None
    pattern: Any = field(default=None, compare=False, repr=False)
    exception: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Fact:
    """The class that a fact outside the logs points to; a decisive fact is the answer."""

    failure: str
    decisive: bool
    retry: Retry | None = None


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Compiled classes, rules and facts."""

    classes: Mapping[str, FailureClass]
    rules: Sequence[Rule]
    platform: Mapping[str, Fact]
    gpu: Mapping[int, Fact]
    signals: Mapping[int, str]
    statuses: Mapping[int, str]
    prefilter: Any = field(default=None, compare=False, repr=False)

    def with_rules(self, rules: Sequence[Rule]) -> RuleSet:
        """The same set with an operator's rules first, so that they win where both match one line."""
        every = (*rules, *self.rules)
        return RuleSet(
            self.classes, every, self.platform, self.gpu, self.signals, self.statuses, prefilter=_prefilter_of(every)
        )


@cache
def builtin() -> RuleSet:
    """The built-in rules."""
    classes: dict[str, FailureClass] = {}
    rules: list[Rule] = []
    for path in sorted(FOLDER.glob("*.yaml")):
        if path.stem == "facts":
            continue
        for name, body in load_rules(path.read_text(encoding="utf-8"), path.name, "classes").items():
            classes[name] = _class_of(name, body)
            rules += [_rule_of(one, name) for one in body.get("rules") or ()]
    return _with_facts(classes, rules)


def read_rules(text: str, *, classes: Mapping[str, FailureClass] | None = None) -> list[Rule]:
    """The rules in an operator's YAML, a mapping of classes to lists of rules.

    Patterns are RE2's, which match in time proportional to the text: backreferences and look-around are refused, and no
    pattern can be slow.

    Raises RuleError, which names the fault.
    """
    known = builtin().classes if classes is None else classes
    found: list[Rule] = []
    names: set[str] = set()
    for failure, bodies in load_rules(text, "the rules", "classes").items():
        if failure not in known:
            raise RuleError(f"class {failure!r}: unknown class; the classes are {', '.join(sorted(known))}")
        if not isinstance(bodies, list):
            raise RuleError(f"class {failure!r}: must be a list of rules")
        for body in bodies:
            rule = _rule_of(body, failure)
            if rule.name in names:
                raise RuleError(f"rule {rule.name!r}: name: is used twice")
            names.add(rule.name)
            found.append(rule)
    return found


def _class_of(name: str, body: Any) -> FailureClass:
    if not isinstance(body, dict) or set(body) - _CLASS_FIELDS:
        raise RuleError(f"class {name!r}: unknown fields; the fields are {', '.join(sorted(_CLASS_FIELDS))}")
    try:
        return FailureClass(name, Category(body["category"]), Retry(body["retry"]), body["hint"])
    except (KeyError, ValueError) as error:
        raise RuleError(f"class {name!r}: {error}") from None


def _rule_of(body: Any, failure: str) -> Rule:
    if not isinstance(body, dict):
        raise RuleError(f"class {failure!r}: a rule must be a mapping, not {body!r}")
    name = str(body.get("name") or "")
    if not name:
        raise RuleError(f"class {failure!r}: a rule has no name")
    return Rule(
        **proven(name, body, _RULE_FIELDS),
        failure=failure,
        strength=_word(Strength, body.get("as") or Strength.CAUSE, name, "as"),
        hint=body.get("hint", ""),
        retry=_word(Retry, body["retry"], name, "retry") if "retry" in body else None,
    )


def _word(words: Any, value: str, rule: str, name_of_field: str) -> Any:
    try:
        return words(value)
    except ValueError:
        raise RuleError(f"rule {rule!r}: {name_of_field}: must be one of {', '.join(words)}, not {value!r}") from None


def _with_facts(classes: Mapping[str, FailureClass], rules: Sequence[Rule]) -> RuleSet:
    facts = load_rules((FOLDER / "facts.yaml").read_text(encoding="utf-8"), "facts.yaml", "facts")

    def fact(body: Mapping[str, str]) -> Fact:
        if body["class"] not in classes:
            raise RuleError(f"facts.yaml: there is no class {body['class']!r}")
        return Fact(body["class"], body["decisive"] == "yes", Retry(body["retry"]) if "retry" in body else None)

    return RuleSet(
        classes=classes,
        rules=tuple(rules),
        platform={name: fact(body) for name, body in facts["platform"].items()},
        gpu={int(xid): fact(body) for xid, body in facts["gpu"].items()},
        signals={int(number): name for number, name in facts["signals"].items()},
        statuses={int(number): name for number, name in facts["statuses"].items()},
        prefilter=_prefilter_of(rules),
    )


def _prefilter_of(rules: Sequence[Rule]) -> Any:
    """One automaton over the literals that the rules need: one pass over a text finds the rules that may match."""
    prefilter = re2.Filter()
    for rule in rules:
        prefilter.Add(source_of(rule.match), options_of())
    prefilter.Compile()
    # RE2 builds automata lazily; matching the example lines builds them now, so the first log is no slower.
    prefilter.Match("\n".join(rule.line for rule in rules).encode(), True)
    return prefilter
