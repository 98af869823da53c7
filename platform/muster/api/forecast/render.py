"""Forecasts of jobs as JSON."""

from __future__ import annotations

from muster.api.jobs.render import gpu_choices, sizes
from muster.api.predictions.render import wait_forecast
from muster.dispatch.explain.forecast import DryRun as DryRunResult
from muster.jobs.spec.spec_order import in_order
from muster.jobs.submit.notes import notes_of
from muster.predictions.waits.outlook import Outlook
from muster.sbatch.translate import Translation
from muster_client.answers.forecast import DryRun, TranslatedScript
from muster_client.answers.jobs import Hold
from scheduler.model.plan import Hold as Held


def translated_script(found: Translation) -> TranslatedScript:
    """The spec of a script, with the report on its options."""
    return {
        "spec": found.spec,
        "report": [
            {"source": one.source, "line": one.line, "text": one.text, "fate": one.fate, "says": one.says}
            for one in found.report
        ],
        "notes": list(found.notes),
        "folder": found.folder,
    }


def dry_run_document(result: DryRunResult, outlook: Outlook) -> DryRun:
    """The document of a dry run."""
    screening, runtime = result.screening, result.runtime
    return {
        "valid": True,
        "spec": in_order(result.job.spec),
        "gpu_choices": gpu_choices(result.job),
        "sizes": [
            {**told, "cpus_from": size.cpus_from, "memory_from": size.memory_from}
            for told, size in zip(sizes(result.job), result.sizes, strict=True)
        ],
        "notes": notes_of(result.job),
        "gpus_total": result.job.gpus_total,
        "feasible": result.feasible,
        "fits_quota": result.fits_quota,
        "starts_now": result.starts_now,
        "hold": _hold(result.hold),
        "position": result.position,
        "screening": {
            "tried": result.outlook.run is not None,
            "why": result.outlook.why,
            "starts_now": None if screening is None else screening.starts_now,
            "hold": None if screening is None else _hold(screening.hold),
        },
        "runtime": {"runtime": runtime.runtime, "why": runtime.why, "nodes": runtime.nodes, "of": runtime.of},
        "wait": wait_forecast(outlook.forecast),
        "wait_unknown": outlook.unknown,
    }


def _hold(hold: Held | None) -> Hold | None:
    return None if hold is None else {"reason": hold.reason, "detail": hold.detail, "helps": list(hold.helps)}
