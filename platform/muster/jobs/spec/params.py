"""Whether a job's command uses its parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def unused_params(spec: Mapping[str, Any]) -> list[str]:
    """The parameters that neither the command nor a value of env names: as `$lr`, `${lr}` or in quotes."""
    texts = [spec.get("command") or "", *map(str, (spec.get("env") or {}).values())]
    text = "\n".join(texts)
    return [name for name in spec.get("params") or {} if not _named(name).search(text)]


def _named(name: str) -> re.Pattern[str]:
    return re.compile(rf"\$\{{?{re.escape(name)}\b|(['\"]){re.escape(name)}\1")
