"""Writing rules for logs, trying them on what has failed, and putting them into force."""

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

TRIED = 100
_MOST_TOLD = 50


def draft_log_rules(*, text: str, note: str, actor: str) -> LogRuleBook:
    """A version that is tried on past failures and not yet in force; `Invalid` names what is wrong."""
    trial = _trial(checked_log_rules(text))
    return versions.draft(LogRuleBook, text=text, note=note, trial=trial, actor=actor)


def put_log_rules_into_force(*, book: LogRuleBook, actor: str) -> None:
    """Look for these rules in what jobs print from now on; an older version may be put into force again."""
    with transaction.atomic():
        versions.put_into_force(book, actor=actor)
        transaction.on_commit(forget_rules)


def checked_log_rules(text: str) -> LogRules:
    """The rules of the text, whose pools and tenants there are, or `Invalid`."""
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


def _trial(rules: LogRules) -> dict[str, object]:
    """Which of the newest failures the rules would have met, by the ends of their logs; scopes are left out."""
    tried, met = 0, []
    for failure in past_failures(TRIED):
        tried += 1
        met += [
            {"job": failure.job_id, "rule": rule.name, "line": line, "called": failure.failure["class"]}
            for rule, line in rules.matches(failure.tail)
        ]
    return {"tried": tried, "met": len(met), "matches": met[:_MOST_TOLD]}
