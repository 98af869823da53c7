"""Draft failure rules, preview them on past failures, and put them into force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from muster.common.errors import Invalid
from muster.failures import versions
from muster.failures.models import RuleBook
from muster.failures.selectors import past_failures
from scheduler.diagnosis.failures import RuleError, RuleSet, Tail, builtin, classify, read_rules
from scheduler.documents import load_yaml

PREVIEWED_FAILURES = 100
_MAX_CHANGES = 50


def draft_rules(*, text: str, note: str, actor: str) -> RuleBook:
    """Store a version that is not in force yet, with its preview on past failures.

    Raises:
        Invalid: names the rule that is invalid, and why.
    """
    return versions.draft(RuleBook, text=text, note=note, preview=_preview(checked(text)), actor=actor)


def with_rule(text: str, *, failure: str, rule: Mapping[str, str]) -> str:
    """Add a rule to its class. Comments of the text are lost."""
    rules: Any = load_yaml(text, only_text=True) if text.strip() else {}
    rules.setdefault(failure, []).append({name: value for name, value in rule.items() if value})
    return yaml.safe_dump(rules, allow_unicode=True, sort_keys=False, width=200)


def put_into_force(*, book: RuleBook, actor: str) -> None:
    """Classify failures by this version from now on; an older version may be put into force again."""
    versions.put_into_force(book, actor=actor)


def checked(text: str) -> RuleSet:
    """Return the built-in rules, preceded by the rules of the text.

    Raises:
        Invalid: the text is not a set of valid rules.
    """
    if not text.strip():
        return builtin()
    try:
        return builtin().with_rules(read_rules(text))
    except RuleError as error:
        raise Invalid.field("text", str(error)) from error


def _preview(rules: RuleSet) -> dict[str, object]:
    """Compare what the rules say of the newest failures with the stored verdicts.

    The key `tried` is the number of failures compared; stored previews have it under that name.
    """
    compared, changes = 0, []
    for failure in past_failures(PREVIEWED_FAILURES):
        compared += 1
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
    return {"tried": compared, "changed": len(changes), "changes": changes[:_MAX_CHANGES]}
