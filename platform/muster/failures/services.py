"""Draft versions of the operators' rules, preview them on past failures, and put them into force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml
from django.db import transaction

from muster.common.errors import Conflict, Invalid
from muster.common.models import DatabaseNow
from muster.common.validation import printable
from muster.events.services import audit
from muster.failures.models import LogRuleBook, RuleVersion, V
from muster.failures.selectors import forget_log_rules, in_force, past_failures
from muster.fleet.models import Pool
from muster.tenants.models import Tenant
from scheduler.diagnosis.failures import RuleError, RuleSet, Tail, builtin, classify, read_rules
from scheduler.diagnosis.logrules import LogRules, read_log_rules
from scheduler.documents import load_yaml

PREVIEWED_FAILURES = 100
_MAX_PREVIEW_ROWS = 50


def draft(kind: type[V], *, text: str, note: str, actor: str) -> V:
    """Store a version that is not in force yet, with its preview on past failures; `Invalid` names a wrong rule."""
    rules = checked(kind, text)
    preview = _matches(rules) if isinstance(rules, LogRules) else _changes(rules)
    with transaction.atomic():
        version = kind._default_manager.create(text=text, note=note, author=actor, preview=preview)
        after = {"text": text, "note": note}
        audit("create", actor=actor, object_type=kind.audit_type, object_id=version.pk, after=after)
    return version


def put_into_force(version: RuleVersion, *, actor: str) -> None:
    """Apply this version, which may be an older one, from now on; one that is in force already is a `Conflict`."""
    kind = type(version)
    with transaction.atomic():
        found = in_force(kind)
        if found is not None and found[0] == version.pk:
            raise Conflict(f"version {version.pk} is in force already")
        kind._default_manager.filter(pk=version.pk).update(in_force_at=DatabaseNow())
        what, before, after = kind.audit_type, {"version": found[0] if found else None}, {"version": version.pk}
        audit("put_into_force", actor=actor, object_type=what, object_id=version.pk, before=before, after=after)
        transaction.on_commit(forget_log_rules)


def with_rule(text: str, *, failure: str, rule: Mapping[str, str]) -> str:
    """Add a rule to its class of failures. Comments of the text are lost."""
    rules: Any = load_yaml(text, only_text=True) if text.strip() else {}
    rules.setdefault(failure, []).append({name: value for name, value in rule.items() if value})
    return yaml.safe_dump(rules, allow_unicode=True, sort_keys=False, width=200)


def checked(kind: type[RuleVersion], text: str) -> RuleSet | LogRules:
    """Return the log rules, or the rules before the built-in ones, of the text; `Invalid` names a wrong rule."""
    try:
        if kind is LogRuleBook:
            return _with_known_names(read_log_rules(text))
        return builtin().with_rules(read_rules(text)) if text.strip() else builtin()
    except RuleError as error:
        raise Invalid.field("text", str(error)) from error


def _with_known_names(rules: LogRules) -> LogRules:
    """Return the rules if every pool and tenant that they name exists."""
    pools = set(Pool.objects.values_list("name", flat=True))
    tenants = set(Tenant.objects.values_list("name", flat=True))
    for rule in rules.rules:
        for name, what, known in ((rule.pool, "pool", pools), (rule.tenant, "tenant", tenants)):
            if name and name not in known:
                raise Invalid.field("text", f"rule {rule.name!r}: {what}: there is no {what} {name!r}")
    return rules


def _changes(rules: RuleSet) -> dict[str, object]:
    """Compare what the rules say of the newest failures with the stored verdicts; `tried` is the number compared."""
    compared, changes = 0, []
    for failure in past_failures(PREVIEWED_FAILURES):
        compared += 1
        told = failure.failure
        tail = Tail(failure.tail, status=failure.status)
        now = classify([tail], status=failure.status, platform={failure.reason}, rules=rules)
        if now.failure != told["class"] or now.retry != told["retry"]:
            changes.append(
                {
                    "job": failure.job_id,
                    "before": f"{told['class']} ({told['retry']})",
                    "after": f"{now.failure} ({now.retry})",
                    "line": printable(now.line),
                }
            )
    return {"tried": compared, "changed": len(changes), "changes": changes[:_MAX_PREVIEW_ROWS]}


def _matches(rules: LogRules) -> dict[str, object]:
    """Match the rules, whatever their pool and tenant, with the newest failures; `tried` is their number."""
    searched, met = 0, []
    for failure in past_failures(PREVIEWED_FAILURES):
        searched += 1
        met += [
            {"job": failure.job_id, "rule": rule.name, "line": line, "called": failure.failure["class"]}
            for rule, line in rules.matches(failure.tail)
        ]
    return {"tried": searched, "met": len(met), "matches": met[:_MAX_PREVIEW_ROWS]}
