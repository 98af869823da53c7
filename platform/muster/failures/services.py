"""Writing rules for failures, trying them on what has failed, and putting them into force."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from muster.common.errors import Invalid
from muster.failures import versions
from muster.failures.models import RuleBook
from muster.failures.selectors import past_failures
from scheduler.diagnosis.failures import RuleError, RuleSet, Tail, builtin, classify, read_rules

TRIED = 100
_MOST_TOLD = 50


def draft_rules(*, text: str, note: str, actor: str) -> RuleBook:
    """A version of the rules that is tried on past failures and not yet in force; `Invalid` names what is wrong."""
    return versions.draft(RuleBook, text=text, note=note, trial=_trial(checked(text)), actor=actor)


def with_rule(text: str, *, failure: str, rule: Mapping[str, str]) -> str:
    """The rules with one more under its class. Comments of the text are not kept."""
    rules = yaml.safe_load(text) if text.strip() else {}
    rules.setdefault(failure, []).append({name: value for name, value in rule.items() if value})
    return yaml.safe_dump(rules, allow_unicode=True, sort_keys=False, width=200)


def put_into_force(*, book: RuleBook, actor: str) -> None:
    """Judge failures by this version from now on; an older version may be put into force again."""
    versions.put_into_force(book, actor=actor)


def checked(text: str) -> RuleSet:
    """The built-in rules with those of the text before them, or `Invalid`."""
    if not text.strip():
        return builtin()
    try:
        return builtin().with_rules(read_rules(text))
    except RuleError as error:
        raise Invalid.field("text", str(error)) from error


def _trial(rules: RuleSet) -> dict[str, object]:
    """What the rules say otherwise than it was said of the newest failures."""
    tried, changes = 0, []
    for failure in past_failures(TRIED):
        tried += 1
        told = failure.failure
        now = classify(
            [Tail(failure.tail, status=failure.status)],
            status=failure.status,
            platform={failure.reason},
            rules=rules,
        )
        if now.failure != told["class"] or now.retry != told["retry"]:
            changes.append(
                {
                    "job": failure.job_id,
                    "before": f"{told['class']} ({told['retry']})",
                    "after": f"{now.failure} ({now.retry})",
                    "line": "".join(char if char.isprintable() else " " for char in now.line),
                }
            )
    return {"tried": tried, "changed": len(changes), "changes": changes[:_MOST_TOLD]}
