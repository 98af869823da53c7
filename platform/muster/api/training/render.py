"""How the training of a job goes, as JSON."""

from __future__ import annotations

from muster.common.clock import moment
from muster.common.figures import finite
from muster.failures.selectors import log_matches_of
from muster.jobs.models import Job
from muster.monitoring.selectors import CheckpointAdvice, advice_of, checkpoint_advice, newest_of
from muster_client.answers.metrics import CheckpointInterval, JobTraining


def job_training(job: Job) -> JobTraining:
    """The newest figures, what the owner was told, and how often to save."""
    interval = checkpoint_advice(job)
    return {
        "newest": [
            {"name": row.name, "step": row.last_step, "value": finite(row.last_value), "at": moment(row.at)}
            for row in newest_of(job)
        ],
        "advice": [
            {"kind": one.kind, "text": one.text, "step": one.step, "attempt": one.attempt.number, "at": moment(one.at)}
            for one in advice_of(job)
        ],
        "checkpoint": None if interval is None else _checkpoint(interval),
        "rules": [
            {
                "rule": one.rule,
                "line": one.line,
                "actions": one.actions,
                "attempt": one.allocation.attempt.number,
                "rank": one.allocation.rank,
                "node": one.allocation.node.name,
                "at": moment(one.at),
            }
            for one in log_matches_of(job)
        ],
    }


def _checkpoint(advice: CheckpointAdvice) -> CheckpointInterval:
    interval = advice.interval
    return {
        "daly_s": interval.daly_s,
        "young_s": interval.young_s,
        "cost_s": interval.cost_s,
        "measured": advice.measured,
        "measurements": advice.measurements,
        "mtbf_s": interval.mtbf_s,
        "failures": advice.failures,
        "node_hours": advice.node_hours,
        "lost_share": interval.lost_share,
    }
