"""Notes for the submitter of a valid job."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from muster.common.clock import utc_now
from muster.jobs.models import Job
from muster.jobs.spec.units import parse_moment
from muster.jobs.submit.awaited import hold_of_draft
from scheduler.model.lifecycle import HoldReason


def notes_of(job: Job) -> list[str]:
    """Sentences without a full stop, for a draft or a stored job with its spec."""
    notes = []
    if not job.request.needs_gpus:
        notes.append("It asks for no GPU, so its command sees none; name gpus if it needs some")
    if not job.spec.get("outputs"):
        notes.append(
            "It names no outputs: its working folder is removed when it ends, and only its log is kept; name the files "
            "to keep, such as outputs: [results/**]"
        )
    hold = job.hold if job.pk else hold_of_draft(job)
    if hold and hold["reason"] == HoldReason.DEPENDENCY:
        notes.append(f"It {hold['detail']}")
    if job.held:
        notes.append("It is held back until it is released")
    begin = job.spec.get("begin") or ""
    if "T" in begin and parse_moment(begin) <= (job.submitted_at if job.pk else utc_now()):
        notes.append(f"Its begin, {begin}, has passed, so it is scheduled at once")
    if unused := unused_params(job.spec):
        notes.append(
            f"Neither its command nor env uses {' and '.join(unused)}: write ${{{unused[0]}}} in the command, "
            "unless the program reads it from its environment"
        )
    return notes


def unused_params(spec: Mapping[str, Any]) -> list[str]:
    """The parameters that neither the command nor a value of env names: as `$lr`, `${lr}` or in quotes."""
    texts = [spec.get("command") or "", *map(str, (spec.get("env") or {}).values())]
    text = "\n".join(texts)
    return [name for name in spec.get("params") or {} if not _named(name).search(text)]


def _named(name: str) -> re.Pattern[str]:
    return re.compile(rf"\$\{{?{re.escape(name)}\b|(['\"]){re.escape(name)}\1")
