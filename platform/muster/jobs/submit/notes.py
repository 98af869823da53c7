"""What the submitter of a job should know of it, though nothing is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from muster.jobs.models import Job


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
