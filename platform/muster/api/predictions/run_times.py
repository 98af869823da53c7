"""Expected run times held against real ones, as JSON."""

from __future__ import annotations

from muster.common.clock import moment
from muster.predictions import run_times
from muster.predictions.models import PredictorModel
from muster.predictions.run_times import RunTimeRecord as Record
from muster_client.answers.forecast import RunTimeModel, RunTimeRecord


def run_times_document(record: Record, model: PredictorModel | None) -> RunTimeRecord:
    """The document of expected run times held against the real ones."""
    return {
        "unknown": "" if record.weeks else run_times.NO_RUNS,
        "weeks": [
            {
                "begins": week.begins.isoformat(),
                "jobs": week.jobs,
                "coverage80": round(week.coverage80, 4),
                "median_ratio": round(week.median_ratio, 3),
                "pinball": round(week.pinball, 4),
            }
            for week in record.weeks
        ],
        "estimates": [
            {
                "owner": one.owner,
                "jobs": one.jobs,
                "median_ratio": round(one.median_ratio, 3),
                "within_2x": round(one.within_2x, 4),
            }
            for one in record.owners
        ],
        "model": None if model is None else _model_document(model),
    }


def _model_document(model: PredictorModel) -> RunTimeModel:
    scores = model.scores
    return {
        "version": model.version,
        "trained_at": moment(model.trained_at),
        "rows": model.rows,
        "scores": {
            "jobs": int(scores.get("jobs", 0)),
            "pinball_model": scores.get("pinball_model"),
            "pinball_last_two": scores.get("pinball_last_two"),
            "coverage80": scores.get("coverage80"),
            "spearman": scores.get("spearman"),
        },
    }
