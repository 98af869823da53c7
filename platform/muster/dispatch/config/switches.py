"""The effects of a switch of a pool's settings: each setting before and after, and its meaning for jobs and quotas."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef, Q

from muster.cells.models import CellShare, PinnedCell
from muster.dispatch.config.knowledge import knowledge_of, needs_in_words, needs_of, too_short_turn
from muster.dispatch.config.plugins import KINDS, has_cells, made, parameters
from muster.dispatch.models import PlannedCluster
from muster.events.labels import words
from muster.fleet.models import Pool
from muster.jobs.models import Job
from muster.jobs.spec.units import written_duration
from muster.tenants.models import Quota, VirtualCluster
from scheduler.engine.policy import PreemptivePolicy
from scheduler.model.lifecycle import JobClass, JobState

Settings = Mapping[str, Any]
"""The plug-ins of a pool and their parameters, by the names of its columns."""

NAMED = 5  # virtual clusters in a sentence; of more, the number


@dataclass(frozen=True, slots=True)
class Change:
    """One setting, in words, before and after."""

    name: str
    before: str
    after: str


def changes(before: Settings, after: Settings) -> list[Change]:
    """The settings that differ. A parameter that only one of the two plug-ins has is not named beside these."""
    found = []
    for kind in KINDS:
        old, new = before[kind], after[kind]
        if old != new:
            found.append(Change(words(kind), _with_params(old, before, kind), _with_params(new, after, kind)))
            continue
        rules = parameters(kind, new) if new in KINDS[kind].names else {}
        olds, news = before[f"{kind}_params"], after[f"{kind}_params"]
        found += [
            Change(f"{words(kind)}, {name}", _value(olds, name, rules), _value(news, name, rules))
            for name in sorted({*olds, *news})
            if olds.get(name, _default(rules, name)) != news.get(name, _default(rules, name))
        ]
    return found


def effects(pool: Pool, before: Settings, after: Settings) -> list[str]:
    """The effects of the switch on the present jobs and virtual clusters of the pool, a sentence each."""
    if not changes(before, after):
        return []
    return [*_of_admission(pool, before, after), *_of_policy(pool, before, after), *_of_planners(pool), *_of_jobs(pool)]


def _of_admission(pool: Pool, before: Settings, after: Settings) -> Iterator[str]:
    old, new = before["admission"], after["admission"]
    if old == new:
        return
    clusters = VirtualCluster.objects.filter(pool=pool, closed_at=None).order_by("name")
    if has_cells(new):
        cells = Q(Exists(CellShare.objects.filter(vc=OuterRef("pk")))) | Q(
            Exists(PinnedCell.objects.filter(vc=OuterRef("pk")))
        )
        yield from _of_cells(clusters.filter(~cells), some=clusters.filter(cells).exists())
        return
    if has_cells(old):
        yield "Cells bind no more: jobs get GPUs anywhere, and no promise holds that they lie together."
    if new == "open":
        yield "No quota holds any more: a virtual cluster may get as many GPUs as the policy gives it."
        return
    without = _names(clusters.filter(~Exists(Quota.objects.filter(vc=OuterRef("pk")))))
    if without and old == "open":
        yield f"Quotas hold now, and {_listed(without)} {_has(without)} none."
    opportunistic = _live(pool).filter(klass=JobClass.OPPORTUNISTIC).count()
    if new == "quota" and old != "open" and opportunistic:
        which = "1 job that is opportunistic counts" if opportunistic == 1 else f"{opportunistic} such jobs count"
        yield f"Nothing is lent to opportunistic jobs any more: {which} against quotas."
    if new == "tree":
        grouped = clusters.filter(tenant__organisation__isnull=False).exists()
        yield (
            "Virtual clusters lend what they do not use within their tenant and their organisation, and call it back "
            "by stopping jobs that borrow."
            if grouped
            else "No tenant here is in an organisation: only virtual clusters of one tenant lend each other GPUs."
        )


def _of_cells(without: Any, *, some: bool) -> Iterator[str]:
    names = _names(without)
    if not some:
        yield (
            "No cells are promised, so all guarantees go and all jobs become opportunistic: what runs may be stopped, "
            "and what waits starts only if it is submitted as an opportunistic job, until virtual clusters have cells."
        )
    elif names:
        yield (
            f"{_listed(names)} {_has(names)} no cells: their guarantees go, their jobs that run become opportunistic, "
            "and what waits starts only if it is submitted as an opportunistic job."
        )
    if some:
        yield "Quotas hold no more, but cells do. A running job that fits no cell becomes opportunistic."


def _of_policy(pool: Pool, before: Settings, after: Settings) -> Iterator[str]:
    policy, params = after["policy"], after["policy_params"]
    if _stops_others(policy, params) and not _stops_others(before["policy"], before["policy_params"]):
        running = _live(pool).filter(state=JobState.ACTIVE, gpus__gt=0)
        stoppable = running.filter(preemptible=True)
        anew = stoppable.filter(checkpoints=False).count()
        yield (
            f"{policy} may stop running jobs for others: {stoppable.count()} of {running.count()} with GPUs now"
            + (
                f", of which {anew} {'saves' if anew == 1 else 'save'} no checkpoints and would begin again."
                if anew
                else "."
            )
        )
    needs = needs_of(policy, params)
    if needs - needs_of(before["policy"], before["policy_params"]):
        yield f"{needs_in_words(needs)} {knowledge_of(pool)}"
    if warning := too_short_turn(policy, params):
        yield warning


def _of_planners(pool: Pool) -> Iterator[str]:
    planned = PlannedCluster.objects.filter(planner__pool=pool).order_by("vc__name").values_list("vc__name", flat=True)
    if names := list(planned):
        yield f"{_listed(names)} {_has(names)} a planner with a policy and a placement of its own, which stay."


def _of_jobs(pool: Pool) -> Iterator[str]:
    states = list(_live(pool).values_list("state", flat=True))
    running, waiting = states.count(JobState.ACTIVE), states.count(JobState.QUEUED)
    yield f"Jobs that run go on for now: {running}. Jobs that wait are decided on anew at once: {waiting}."


def _live(pool: Pool) -> Any:
    return Job.objects.filter(pool=pool, state__in=(JobState.QUEUED, JobState.ACTIVE))


def _stops_others(policy: str, params: Mapping[str, Any]) -> bool:
    found = made("policy", policy, params)
    return isinstance(found, PreemptivePolicy) and found.preemptive


def _with_params(plugin: str, settings: Settings, kind: str) -> str:
    params = settings[f"{kind}_params"]
    told = ", ".join(f"{name} {_word(name, value)}" for name, value in sorted(params.items()))
    return f"{plugin} ({told})" if told else plugin


def _value(params: Mapping[str, Any], name: str, rules: Mapping[str, Mapping[str, Any]]) -> str:
    if name in params:
        return _word(name, params[name])
    return f"{_word(name, _default(rules, name))} (default)"


def _default(rules: Mapping[str, Mapping[str, Any]], name: str) -> Any:
    return rules.get(name, {}).get("default")


def _word(name: str, value: Any) -> str:
    if name.endswith("_s") and not name.endswith("_gpu_s") and isinstance(value, int | float):
        return written_duration(value)
    return value if isinstance(value, str) else json.dumps(value)


def _names(clusters: Any) -> list[str]:
    return list(clusters.values_list("name", flat=True))


def _listed(names: Collection[str]) -> str:
    return ", ".join(names) if len(names) <= NAMED else f"{len(names)} virtual clusters"


def _has(names: Collection[str]) -> str:
    return "has" if len(names) == 1 else "have"
