"""Looking at what jobs print as it is stored, and doing what the operators' rules say.

Whole lines are looked at: what a chunk ends with waits for the chunk that ends it, which reads it back from the store,
unless this process knows that a line ended there. What a process remembers only saves work, and a chunk that is sent
again is looked at again. That a job and a rule meet once is a constraint of the database.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

from django.db import transaction

from muster.events.services import mail_operators, record, wake_pool
from muster.failures.models import LogMatch
from muster.failures.selectors import log_rules_in_force
from muster.fleet.strikes import blame_for_failure
from muster.jobs.attempt.ending import end_for_good
from muster.jobs.models import Allocation, ExcludedNode, Job
from muster.logs.models import LogFile
from muster.logs.store import read
from scheduler.diagnosis.logrules import MAX_LINE_BYTES, Action, LogRule
from scheduler.model.reasons import Reason

V = TypeVar("V")

_MAX_REMEMBERED = 10_000
# Of the jobs that printed last, the rules that have met them: a job may print the same line a million times.
_met: OrderedDict[int, frozenset[str]] = OrderedDict()
# Where the line has ended that came last, by allocation: the bytes before that need not be read.
_line_ends: OrderedDict[int, int] = OrderedDict()


def look_at(allocation: Allocation, *, start: int, body: bytes, over: bool = False) -> None:
    """Look at the bytes that were just stored from `start` on; `over`: nothing comes after them, so they end a line."""
    rules = log_rules_in_force()
    if not rules.rules or not body:
        return
    before = b""
    if start and _line_ends.get(allocation.pk) != start:
        before = read(allocation, start=max(0, start - MAX_LINE_BYTES), end=start)
    if body.endswith((b"\n", b"\r")):
        _remember(_line_ends, allocation.pk, start + len(body))
    data = before + body
    text = _whole_lines(data, len(before), over=over)
    job_id = allocation.attempt.job_id
    found = rules.matches(text, without=_met.get(job_id, frozenset()))
    if not found:
        return
    job = Job.objects.select_related("pool", "tenant").get(pk=job_id)
    for rule, line in found:
        if rule.pool in {"", job.pool.name} and rule.tenant in {"", job.tenant.name}:
            _meet(job, allocation, rule, line)
    # Those of another pool or tenant never will.
    _remember(_met, job_id, _met.get(job_id, frozenset()) | {rule.name for rule, _ in found})


def look_at_the_end(allocation: Allocation) -> None:
    """Look at what a log that is closed ends with, if it is no whole line."""
    if log_rules_in_force().rules:
        log = LogFile.objects.filter(pk=allocation.pk).first()
        if log is not None and log.size:
            allocation.log_file = log
            start = max(0, log.size - MAX_LINE_BYTES)
            look_at(allocation, start=start, body=read(allocation, start=start, end=log.size), over=True)


def forget_meetings() -> None:
    """Forget what this process remembers; the database does not."""
    _met.clear()
    _line_ends.clear()


def _whole_lines(data: bytes, new: int, *, over: bool) -> bytes:
    """The lines that end at or behind `new`; one that is longer than is waited for counts as it is."""
    begin = max(data.rfind(b"\n", 0, new), data.rfind(b"\r", 0, new)) + 1
    end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
    if over or len(data) - end > MAX_LINE_BYTES // 2:
        end = len(data)
    return data[begin:end]


def _remember(memory: OrderedDict[int, V], key: int, value: V) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > _MAX_REMEMBERED:
        memory.popitem(last=False)


def _meet(job: Job, allocation: Allocation, rule: LogRule, line: str) -> None:
    """Note the first meeting of a job and a rule, and do what the rule says."""
    actions = [action.value for action in rule.actions]
    with transaction.atomic():
        Job.objects.select_for_update(no_key=True).only("pk").get(pk=job.pk)
        known = {"allocation": allocation, "actions": actions, "line": line}
        _, is_new = LogMatch.objects.get_or_create(job=job, rule=rule.name, defaults=known)
        if not is_new:  # another process was faster, or it was before this process began
            return
        record(
            "job.log_rule",
            actor=f"rule {rule.name}",
            tenant_id=job.tenant_id,
            job_id=job.pk,
            data={
                "attempt": allocation.attempt.number,
                "rank": allocation.rank,
                "node": allocation.node.name,
                "rule": rule.name,
                "actions": actions,
                "detail": line,
                "tells_owner": Action.NOTIFY_OWNER in rule.actions,
            },
        )
        _act(job, allocation, rule, line)


def _act(job: Job, allocation: Allocation, rule: LogRule, line: str) -> None:
    if Action.NOTIFY_OPERATORS in rule.actions:
        body = f"Job {job.pk} {job.name} on {allocation.node.name} printed what rule {rule.name} looks for:\n\n{line}\n"
        mail_operators(subject=f"Rule {rule.name} met job {job.pk}", body=body)
    if Action.STRIKE in rule.actions:
        blame_for_failure(
            node_ids=[allocation.node_id],
            failure=f"rule {rule.name}",
            owner_id=job.owner_id,
            job_id=job.pk,
            attempt_id=allocation.attempt_id,
            detail=f"rule {rule.name}: {line}",
        )
    if Action.EXCLUDE_NODE in rule.actions:
        _exclude(job, allocation)
    if Action.CANCEL in rule.actions:
        detail = f"rule {rule.name}: {line}"
        end_for_good(job_id=job.pk, reason=Reason.LOG_RULE, detail=detail, actor=f"rule {rule.name}")


def _exclude(job: Job, allocation: Allocation) -> None:
    """Let further tries of the job avoid the node."""
    ExcludedNode.objects.get_or_create(job=job, node_id=allocation.node_id)
    avoided = Job.objects.values_list("avoid_nodes", flat=True).get(pk=job.pk)
    if allocation.node_id not in avoided:
        Job.objects.filter(pk=job.pk).update(avoid_nodes=[*avoided, allocation.node_id])
        wake_pool(job.pool_id)
