"""The line to show for a failure that no rule knows, and groups of jobs whose lines are alike."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MAX_CHARS = 400
_HINTS = re.compile(
    r"error|exception|fail|fatal|abort|cannot|can't|could not|unable|denied|invalid|killed|panic", re.IGNORECASE
)
# A summary may follow the error, but not a whole log, so only this much of the end is searched.
_MAX_LINES = 40
_MAX_LOG_CHARS = 16 << 10
# The parts that differ between two jobs with the same failure, most specific first.
_VARIABLE = re.compile(
    r"""0x[0-9a-f]+ | \b[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b | (?:/[\w.@+~-]+){2,}/? | \b[\w-]+(?:\.[\w-]+){2,}\b(?::\d+)?
    | "[^"]{1,200}" | '[^']{1,200}' | [+-]?\d+(?:[.,:]\d+)*""",
    re.IGNORECASE | re.VERBOSE,
)
_HOLE = "<*>"


@dataclass(frozen=True, slots=True)
class Cluster:
    """Jobs whose excerpts are alike."""

    template: str
    """The excerpt, with `<*>` for the parts that differ."""
    example: str
    jobs: tuple[int, ...]

    @property
    def pattern(self) -> str:
        """A pattern that matches the excerpts of all these jobs, for a rule."""
        return ".*".join(re.escape(part).replace(r"\ ", " ") for part in self.template.split(_HOLE))


def excerpt_of(log: str) -> str:
    """The last line that sounds like a failure; without one, the last line that is not empty."""
    lines = [line.strip() for line in log[-_MAX_LOG_CHARS:].replace("\r", "\n").splitlines()[-_MAX_LINES:]]
    spoken = [line for line in lines if line]
    complaints = [line for line in spoken if _HINTS.search(line[:MAX_CHARS])]
    return (complaints or spoken or [""])[-1][:MAX_CHARS]


def template_of(line: str) -> str:
    """The line with placeholders for the parts that may differ from job to job."""
    return _VARIABLE.sub(_HOLE, line[:MAX_CHARS])


def clusters(words: Iterable[tuple[int, str]]) -> list[Cluster]:
    """Groups of jobs with like excerpts, largest first; jobs without an excerpt are left out.

    `words` are pairs of a job and its excerpt.
    """
    found: dict[str, list[tuple[int, str]]] = {}
    for job, line in words:
        if line:
            found.setdefault(template_of(line), []).append((job, line))
    made = [
        Cluster(template, members[0][1], tuple(dict.fromkeys(job for job, _ in members)))
        for template, members in found.items()
    ]
    return sorted(made, key=lambda cluster: (-len(cluster.jobs), cluster.template))
