"""Draft log rules, preview them on past failures, and put them into force."""

from __future__ import annotations

from django.db import transaction

from muster.common.errors import Invalid
from muster.failures import versions
from muster.failures.selectors import past_failures
from muster.fleet.models import Pool
from muster.logrules.models import LogRuleBook
from muster.logrules.selectors import forget_rules
from muster.tenants.models import Tenant
from scheduler.diagnosis.failures.rules import RuleError
from scheduler.diagnosis.logrules import LogRules, read_log_rules

PREVIEWED_FAILURES = 100
_MAX_MATCHES = 50


def draft_log_rules(*, text: str, note: str, actor: str) -> LogRuleBook:
    """Store a version that is not in force yet, with its preview on past failures.

    Raises:
        Invalid: names the rule that is invalid, and why.
    """
    preview = _preview(checked_log_rules(text))
    return versions.draft(LogRuleBook, text=text, note=note, preview=preview, actor=actor)


def put_log_rules_into_force(*, book: LogRuleBook, actor: str) -> None:
    """Apply these rules to new log lines from now on; an older version may be put into force again."""
    with transaction.atomic():
        versions.put_into_force(book, actor=actor)
        transaction.on_commit(forget_rules)


def checked_log_rules(text: str) -> LogRules:
    """Return the rules of the text; every pool and tenant they name exists.

    Raises:
        Invalid: names the rule that is invalid, and why.
    """
    try:
        rules = read_log_rules(text)
    except RuleError as error:
        raise Invalid.field("text", str(error)) from error
    pools = set(Pool.objects.values_list("name", flat=True))
    tenants = set(Tenant.objects.values_list("name", flat=True))
    for rule in rules.rules:
        for name, what, known in ((rule.pool, "pool", pools), (rule.tenant, "tenant", tenants)):
            if name and name not in known:
                raise Invalid.field("text", f"rule {rule.name!r}: {what}: there is no {what} {name!r}")
    return rules


def _preview(rules: LogRules) -> dict[str, object]:
    """Match the rules with the ends of the logs of the newest failures; `pool` and `tenant` of rules are ignored.

    The key `tried` is the number of failures searched; stored previews have it under that name.
    """
    searched, met = 0, []
    for failure in past_failures(PREVIEWED_FAILURES):
        searched += 1
        met += [
            {"job": failure.job_id, "rule": rule.name, "line": line, "called": failure.failure["class"]}
            for rule, line in rules.matches(failure.tail)
        ]
    return {"tried": searched, "met": len(met), "matches": met[:_MAX_MATCHES]}
