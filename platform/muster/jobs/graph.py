"""The jobs and groups that one is tied to by dependencies, in both directions; a group is one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection

from muster.accounts.models import User
from muster.jobs.models import Job, JobGroup
from muster.jobs.selectors import visible_to
from scheduler.model.dependencies import DependencyKind, DependencyState

MAX_NODES = 100
"""The nearest ones in each direction."""

_SOURCE = "coalesce(dep.on_group_id, target.group_id, dep.on_job_id)"
# Members of a group have the same entries, so that its first one stands for all of them.
_BEFORE = f"""
WITH RECURSIVE found(id) AS (
    SELECT %(id)s::bigint
    UNION
    SELECT {_SOURCE} FROM found
    JOIN jobs_job job ON job.id = found.id OR (job.group_id = found.id AND job.member = 1)
    JOIN jobs_dependency dep ON dep.job_id = job.id
    LEFT JOIN jobs_job target ON target.id = dep.on_job_id
    WHERE dep.on_owner_id IS NULL
)
SELECT id FROM found LIMIT %(most)s
"""  # noqa: S608
_BEHIND = """
WITH RECURSIVE found(id) AS (
    SELECT %(id)s::bigint
    UNION
    SELECT coalesce(job.group_id, job.id) FROM found
    CROSS JOIN LATERAL (
        SELECT job_id FROM jobs_dependency WHERE on_job_id = found.id
        UNION ALL SELECT job_id FROM jobs_dependency WHERE on_group_id = found.id
        UNION ALL SELECT dep.job_id FROM jobs_job member JOIN jobs_dependency dep ON dep.on_job_id = member.id
        WHERE member.group_id = found.id
    ) dep JOIN jobs_job job ON job.id = dep.job_id
)
SELECT id FROM found LIMIT %(most)s
"""
_EDGES = f"""
SELECT {_SOURCE}, coalesce(job.group_id, job.id), dep.kind,
    CASE WHEN bool_or(dep.state = 'never') THEN 'never' WHEN bool_or(dep.state = 'open') THEN 'open' ELSE 'met' END
FROM jobs_job job JOIN jobs_dependency dep ON dep.job_id = job.id LEFT JOIN jobs_job target ON target.id = dep.on_job_id
WHERE (job.id = ANY(%(ids)s) OR job.group_id = ANY(%(ids)s)) AND dep.on_owner_id IS NULL
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Node:
    """A job, or a group of this kind."""

    id: int
    kind: str | None
    name: str
    state: str
    waits: bool
    """Whether it waits for others still."""


@dataclass(frozen=True, slots=True)
class Edge:
    """The second of two nodes waits for this of the first."""

    source: int
    target: int
    kind: DependencyKind
    state: DependencyState


@dataclass(frozen=True, slots=True)
class Graph:
    """The jobs around the one in the middle, which it waits for or which wait for it; not `whole`: the nearest ones."""

    middle: int
    nodes: Sequence[Node]
    edges: Sequence[Edge]
    whole: bool


def graph_of(user: User, job: Job) -> Graph:
    """The graph of a job, or of its group, as far as the user sees it; older nodes come first."""
    middle = job.group_id or job.pk
    ids: set[int] = set()
    whole = True
    with connection.cursor() as cursor:
        for statement in (_BEFORE, _BEHIND):
            cursor.execute(statement, {"id": middle, "most": MAX_NODES + 1})
            found = [pk for (pk,) in cursor.fetchall()]
            whole = whole and len(found) <= MAX_NODES
            ids.update(found[:MAX_NODES])
        cursor.execute(_EDGES, {"ids": sorted(ids)})
        edges = [
            Edge(source, target, DependencyKind(kind), DependencyState(state))
            for source, target, kind, state in cursor.fetchall()
        ]
    nodes = [
        Node(pk, None, name, state, blocked > 0 and state == "queued")
        for pk, name, state, blocked in visible_to(user, Job.objects.filter(pk__in=ids, group=None)).values_list(
            "pk", "name", "state", "blocked_by"
        )
    ]
    waiting = {edge.target for edge in edges if edge.state is DependencyState.OPEN}
    nodes += [
        Node(pk, kind, name, state, pk in waiting and state == "active")
        for pk, kind, name, state in visible_to(user, JobGroup.objects.filter(pk__in=ids)).values_list(
            "pk", "kind", "name", "state"
        )
    ]
    seen = {node.id for node in nodes}
    return Graph(
        middle,
        sorted(nodes, key=lambda node: node.id),
        [edge for edge in edges if {edge.source, edge.target} <= seen],
        whole,
    )
