"""Runs cases in the format of HiveD's expected bindings, or steps, and gives the answer for each pod."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from bench.hived.groups import Answer, Bound, Groups, Pod, Preempt, members_of
from scheduler.admission.hived.config import CellConfigError, parse, parse_clusters
from scheduler.documents import DocumentError, load_yaml

Document = Mapping[str, Any]


class CasesError(ValueError):
    """The cases are not in a format that the command reads; the message says what is wrong."""


def run(config_text: str, cases_text: str) -> object:
    """The answers to the cases: an object by pod, or for `steps` a list with one such object a step.

    Raises:
        CellConfigError: the configuration is wrong.
        CasesError: the cases are.
    """
    try:
        document: Any = load_yaml(config_text)
        cases = json.loads(cases_text)
    except (DocumentError, json.JSONDecodeError) as error:
        raise CasesError(str(error)) from error
    groups = Groups(parse(document))
    if not isinstance(cases, Mapping):
        raise CasesError("the cases must be an object")
    pods = _pods(cases)
    if "steps" in cases:
        if not isinstance(cases["steps"], list):
            raise CasesError("steps must be a list")
        return [_step(groups, pods, document, step, number) for number, step in enumerate(cases["steps"])]
    names = [*cases.get("casesThatShouldSucceed", ())]
    names += [name for names_of_case in cases.get("casesThatShouldFail", ()) for name in names_of_case]
    return {name: show(groups.schedule(_named(pods, name))) for name in names}


def _step(groups: Groups, pods: Mapping[str, Pod], document: Document, step: Document, number: int) -> object:
    if not isinstance(step, Mapping):
        raise CasesError(f"steps[{number}] must be an object")
    verbs = [verb for verb in step if verb in {"create", "delete", "node_bad", "node_good", "reconfigure"}]
    if len(verbs) != 1:
        raise CasesError(f"steps[{number}] needs one of create, delete, node_bad, node_good, reconfigure")
    verb, what = verbs[0], step[verbs[0]]
    if verb == "create":
        mine = [pod for pod in pods.values() if pod.group == what]
        if not mine:
            raise CasesError(f"steps[{number}].create: no pod is of group {what!r}")
        reserves = step.get("phase", "preempting") == "preempting"
        return {pod.name: show(groups.schedule(pod, step.get("suggested"), reserves=reserves)) for pod in mine}
    if verb == "delete":
        groups.delete(what)
    elif verb == "reconfigure":
        return _reconfigure(groups, document, what)
    else:
        groups.set_healthy(what, verb == "node_good")
    return {}


def _reconfigure(groups: Groups, document: Document, change: Document) -> object:
    """Change the cells of virtual clusters, and the physical ones if given; a refused change changes nothing."""
    try:
        if "physicalCluster" in change:
            config = parse({**document, **change})
        else:
            config = groups.cells.topology.config.assign(parse_clusters(change.get("virtualClusters", change)))
    except CellConfigError as error:
        return {"refused": str(error)}
    groups.reconfigure(config)
    return {}


def _pods(cases: Document) -> Mapping[str, Pod]:
    groups, specs = cases.get("groups", {}), cases.get("pods", {})
    if not isinstance(groups, Mapping) or not isinstance(specs, Mapping):
        raise CasesError("groups and pods must be objects")
    return {name: _pod(name, spec, groups) for name, spec in specs.items()}


def _pod(name: str, spec: object, groups: Document) -> Pod:
    if not isinstance(spec, Mapping):
        raise CasesError(f"pods.{name} must be an object")
    try:
        group = str(spec.get("AffinityGroup") or "")
        gpus = int(spec.get("LeafCellNumber", 0))
        members: Iterable[Document] = groups.get(group, [{"podNumber": 1, "leafCellNumber": gpus}])
        return Pod(
            name=name,
            group=group or name,
            members=members_of((int(member["podNumber"]), int(member["leafCellNumber"])) for member in members),
            gpus=gpus,
            vc=str(spec.get("VirtualCluster") or ""),
            priority=int(spec.get("Priority", 0)),
            leaf_type=str(spec.get("LeafCellType") or ""),
            pinned=str(spec.get("PinnedCellId") or ""),
            lazy=bool(spec.get("LazyPreemptionEnable", False)),
            ignores_suggested=bool(spec.get("IgnoreK8sSuggestedNodes", False)),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CasesError(f"pods.{name} or its group: {error!r}") from error


def _named(pods: Mapping[str, Pod], name: str) -> Pod:
    if name not in pods:
        raise CasesError(f"there is no pod {name!r} in pods")
    return replace(pods[name])


def show(answer: Answer) -> Mapping[str, object]:
    """An answer as the command prints it."""
    if isinstance(answer, Bound):
        return {"node": answer.node, "leafCellIsolation": list(answer.leaves)}
    if isinstance(answer, Preempt):
        return {"preempt": list(answer.pods)}
    return {"refused" if type(answer).__name__ == "Refused" else "wait": answer.reason}
