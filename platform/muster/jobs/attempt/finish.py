"""The end of an attempt, once nothing of it is held: gather the facts, judge them, and write what follows."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from muster.common.clock import utc_now
from muster.common.models import DatabaseNow
from muster.events.services import record, wake_group, wake_pool
from muster.fleet.checks import check_soon
from muster.fleet.models import Gpu
from muster.fleet.strikes import blame_for_failure, nodes_of_failed_gpus
from muster.jobs.attempt.blackholes import failed_by_node
from muster.jobs.attempt.estimates import learn_from
from muster.jobs.attempt.gangs import Gang
from muster.jobs.attempt.outcome import EndFacts, Outcome, judge_end, retry_fields
from muster.jobs.attempt.resizes import resize_that_failed
from muster.jobs.attempt.runs import in_its_own_queue
from muster.jobs.attempt.verdicts import failed_so_before, stored, verdict_on
from muster.jobs.models import Attempt, ExcludedNode
from muster.jobs.ports import ScreeningEnd, ports
from muster.jobs.spec.spec import Retry
from scheduler.diagnosis.failures import Retry as Advice
from scheduler.diagnosis.failures import Verdict
from scheduler.diagnosis.screening import Then
from scheduler.model.lifecycle import ATTEMPT_TERMINAL, AttemptState, Desired, JobState, Stage
from scheduler.model.reasons import Reason


@dataclass(frozen=True, slots=True)
class _End:
    """An attempt that has ended, and the nodes that its end may be blamed on."""

    gang: Gang
    facts: EndFacts
    blamed: list[int]
    held_s: float


def finish_if_released(gang: Gang, *, tail: str = "") -> None:
    """End the attempt once nothing of it is held, and move its job on; `tail` is that of the rank that ended last."""
    if not gang.all_released or gang.attempt.state in ATTEMPT_TERMINAL:
        return
    end = _gathered(gang, *_end_attempt(gang, tail))
    outcome = judge_end(end.facts)
    _write(end, outcome)


def _end_attempt(gang: Gang, tail: str) -> tuple[AttemptState, Reason, Verdict | None]:
    job, attempt, moves = gang.job, gang.attempt, gang.moves
    if attempt.state != AttemptState.STOPPING:
        ended_as, reason = AttemptState.SUCCEEDED, Reason.COMPLETED
        if attempt.state == AttemptState.STARTING:
            moves.move_attempt(attempt, AttemptState.RUNNING, job=job, actor="agent")
        moves.move_attempt(attempt, ended_as, job=job, actor="platform", reason=reason, exit_code=0)
        return ended_as, reason, None
    ended_as, reason = AttemptState(attempt.outcome), Reason(attempt.reason)
    verdict = verdict_on(attempt, gang.allocations, ended_as=ended_as, reason=reason, last_tail=tail)
    failure = None if verdict is None else stored(verdict)
    told = {"reason": reason} | ({"failure": failure["class"]} if failure else {})
    moves.move_attempt(attempt, ended_as, job=job, actor="platform", data=told, failure=failure)
    moves.write()  # the judgement on its nodes counts this attempt, too
    return ended_as, reason, verdict


def _gathered(gang: Gang, ended_as: AttemptState, reason: Reason, verdict: Verdict | None) -> _End:
    job, attempt, now = gang.job, gang.attempt, utc_now()
    screened = attempt.stage == Stage.SCREENING
    # The other ranks were stopped because of it: their own ends say nothing against their nodes.
    to_blame = [one for one in gang.allocations if one.end_reason == reason]
    blamed = sorted({one.node_id for one in to_blame})
    # What a failed rank ran in may be kept for a while: that says nothing of how quickly it failed.
    failed_s = (min((one.failed_at or now for one in to_blame), default=now) - attempt.placed_at).total_seconds()
    if reason is Reason.GPU_FAILED:
        blamed = nodes_of_failed_gpus(attempt.pk)
    # A screening run is there to fail by the job's own fault: that says nothing against its node.
    own_fault = screened and verdict is not None and verdict.retry is Advice.NO
    may_be_nodes = ended_as is AttemptState.FAILED and not own_fault
    facts = EndFacts(
        ended_as=ended_as,
        reason=reason,
        desired=Desired(job.desired),
        retry=Retry.model_validate(job.spec["retry"]),
        retries_used=job.retries_used,
        verdict=verdict,
        by_node=may_be_nodes and failed_by_node(blamed, reason=reason, failed_s=failed_s),
        failed_so_before=failed_so_before(attempt, verdict, reason),
        resize=resize_that_failed(job, attempt, ended_as=ended_as, reason=reason, verdict=verdict),
        screening_runs=Attempt.objects.filter(job=job, stage=Stage.SCREENING).count() if screened else 0,
        chance=random.random(),  # noqa: S311 (it spreads pauses, and is no secret)
    )
    return _End(gang, facts, blamed, max((now - attempt.placed_at).total_seconds(), 0.0))


def _write(end: _End, outcome: Outcome) -> None:
    gang, facts = end.gang, end.facts
    job, attempt = gang.job, gang.attempt
    if outcome.strikes_nodes and facts.verdict is not None:
        blame_for_failure(
            node_ids=end.blamed,
            failure=facts.verdict.failure,
            owner_id=job.owner_id,
            job_id=job.pk,
            attempt_id=attempt.pk,
            detail=f"{facts.verdict.failure}: {facts.verdict.line}",
        )
    queued = outcome.state is JobState.QUEUED
    fields = (
        _fields_after_full_run(end, outcome) if outcome.screening is None else _fields_after_screening(end, outcome)
    )
    if queued:
        fields |= retry_fields(outcome, retries_used=job.retries_used, attempt=attempt.number)
    told: dict[str, Any] = {"reason": outcome.reason, "attempt": attempt.number}
    told |= {"exit_code": attempt.exit_code} if outcome.screening is None else {"stage": Stage.SCREENING}
    if facts.verdict is not None:
        told["failure"] = facts.verdict.failure
    gang.moves.move_job(job, outcome.state, actor="platform", data=told, **fields)
    pools = {job.pool_id}
    if outcome.screening is not None:
        ports.screener.ended(ScreeningEnd(job, attempt, outcome.screening, end.held_s))
        pools.add(job.vc.pool_id)
    elif facts.resize is not None:
        data = {"before": facts.resize.before, "wanted": facts.resize.wanted, "because": facts.resize.because}
        record("job.resize_failed", actor="platform", tenant_id=job.tenant_id, job_id=job.pk, data=data)
    if not queued:
        if outcome.screening is None:
            learn_from(job)
        if job.group_id is not None and job.array_index is None:  # an array has nothing to decide at each end
            wake_group(job.group_id)
    elif outcome.avoid_nodes:
        # Last: the code that takes the results of checks locks the node first.
        on_blamed = Gpu.objects.filter(claims__allocation__attempt=attempt, node__in=end.blamed)
        check_soon(set(on_blamed.values_list("pk", flat=True)))
    for pool_id in pools:
        wake_pool(pool_id)


def _fields_after_full_run(end: _End, outcome: Outcome) -> dict[str, Any]:
    job, attempt, resize = end.gang.job, end.gang.attempt, end.facts.resize
    fields: dict[str, Any] = {
        "attained_gpu_s": job.attained_gpu_s + attempt.gpus_total * end.held_s,
        "ran_s": job.ran_s + end.held_s,
        "exit_code": attempt.exit_code,
        "reason": outcome.reason,
        "reason_detail": attempt.reason_detail,
        "failure": attempt.failure,
        "failed_resize": job.failed_resize if resize is None else resize.stored(),
    }
    if outcome.state is JobState.QUEUED:
        fields |= {"requeued_at": DatabaseNow(), "eligible_at": _eligible_at(outcome)}
        fields |= _avoided(end, outcome)
    return fields


def _fields_after_screening(end: _End, outcome: Outcome) -> dict[str, Any]:
    """The fields of the job; one that is queued keeps its times, and with them its place in the queue."""
    job, attempt = end.gang.job, end.gang.attempt
    if outcome.state is not JobState.QUEUED:
        detail = attempt.reason_detail
        if outcome.state is JobState.FAILED:
            found_on = f"found in its screening run on {attempt.gpus_total} of {job.gpus_total} GPUs"
            detail = f"{detail[:400]} ({found_on})" if detail else found_on
        ended = {"reason": outcome.reason, "reason_detail": detail}
        return ended | {"exit_code": attempt.exit_code, "failure": attempt.failure}
    goes_on = outcome.screening is not None and outcome.screening.then is Then.GO_ON
    again = None if goes_on else ports.screener.next_run(job)
    fields = in_its_own_queue(job) if again is None else again | _avoided(end, outcome)
    return fields | ({"eligible_at": _eligible_at(outcome)} if outcome.back_off_s else {})


def _avoided(end: _End, outcome: Outcome) -> dict[str, Any]:
    if not outcome.avoid_nodes:
        return {}
    excluded = ExcludedNode.objects.filter(job=end.gang.job).values_list("node_id", flat=True)
    return {"avoid_nodes": sorted({*end.blamed, *excluded})}


def _eligible_at(outcome: Outcome) -> Any:
    return DatabaseNow() + timedelta(seconds=outcome.back_off_s)
