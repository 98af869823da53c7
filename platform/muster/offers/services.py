"""The operations of frameworks: register, leave, accept an offer by launching jobs on it, decline one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction

from muster.accounts.models import User
from muster.common.errors import Conflict, FieldError, Invalid, MusterError
from muster.common.models import DatabaseNow
from muster.common.rows import require_first
from muster.dispatch.apply.apply import apply_unit
from muster.dispatch.apply.plan_units import Unit
from muster.dispatch.config.settings import config_of
from muster.dispatch.explain.cells import with_cells
from muster.events.services import audit, record, recorded_together, wake_pool
from muster.fleet.models import Gpu
from muster.fleet.runtimes import ASKED_BY, forms_of
from muster.jobs.models import Job
from muster.jobs.services import submit_job
from muster.offers.models import Framework, Launch, Offer, OfferFilter, Role
from muster.offers.selectors import get_framework, get_offer
from muster.offers.transitions import accept, end_offers, set_filter
from muster.tenants.selectors import tenants_of
from scheduler.model import AllocationView
from scheduler.model.eligibility import RUNTIME_MISMATCH, forbidden_by
from scheduler.model.lifecycle import JobClass, OfferState, RuntimeNeed
from scheduler.model.plan import Place
from scheduler.model.request import Choice

DEFAULT_FILTER_S = 5.0
MAX_FILTER_S = 86_400.0
MAX_LAUNCHES = 100


@dataclass(frozen=True, slots=True)
class Wanted:
    """A job to launch on an offer: its spec, and the UUIDs of its GPUs, or None for any that fit."""

    spec: object
    gpus: Sequence[str] | None = None


def register_framework(*, user: User, role_name: str, needs: RuntimeNeed = RuntimeNeed.ANY) -> tuple[Framework, bool]:
    """Register the user's framework in the role; returns it, and whether it is new.

    While it asks, it is offered GPUs on nodes that can start jobs of its `needs`. Registering again resets its
    filters and its needs.
    """
    roles = Role.objects.filter(name=role_name, vc__tenant__in=tenants_of(user))
    role = require_first(roles, f"there is no role {role_name[:100]!r} of a tenant of yours")
    with transaction.atomic():
        framework, created = Framework.objects.get_or_create(role=role, user=user)
        Framework.objects.filter(pk=framework.pk).update(seen_at=DatabaseNow(), needs=needs)
        OfferFilter.objects.filter(framework=framework).delete()
        if created:
            audit("register", "framework", framework.pk, actor=user.username, after={"role": role.name})
            data = {"framework": framework.pk, "role": role.name}
            record("framework.registered", actor=user.username, tenant_id=role.vc.tenant_id, data=data)
        wake_pool(role.vc.pool_id)
    return get_framework(user, framework.pk), created


def leave(*, user: User, framework_id: int) -> None:
    """Stop asking, and return all offers; launched jobs continue."""
    framework = get_framework(user, framework_id)
    with transaction.atomic():
        Framework.objects.filter(pk=framework.pk).update(seen_at=None)
        standing = Offer.objects.filter(framework=framework, state=OfferState.STANDING).order_by("pk")
        offers = list(standing.select_related("framework__role__vc", "node"))
        end_offers(offers, OfferState.RESCINDED, actor=user.username, detail="its framework has left")
        audit("leave", "framework", framework.pk, actor=user.username)
        wake_pool(framework.role.vc.pool_id)


def decline_offer(*, user: User, offer_id: int, filter_s: float = DEFAULT_FILTER_S) -> Offer:
    """Return the offer, and get no offer of its node for `filter_s`; declining twice is fine."""
    _check_filter(filter_s)
    offer = get_offer(user, offer_id)
    with transaction.atomic():
        ended = end_offers([offer], OfferState.DECLINED, actor=user.username)
        offer.refresh_from_db(fields=["state", "ended_at", "detail"])
        if not ended and offer.state != OfferState.DECLINED:
            raise Conflict(_over(offer))
        set_filter(offer.framework_id, offer.node_id, filter_s)
        if ended:
            wake_pool(offer.framework.role.vc.pool_id)
    return offer


def accept_offer(
    *, user: User, offer_id: int, wanted: Sequence[Wanted], filter_s: float = DEFAULT_FILTER_S
) -> list[Job]:
    """Launch jobs on GPUs of the offer; the rest of the offer is free at once, and filtered for `filter_s`.

    1. Take the offer, so that no other request can. Within this transaction its GPUs count as free.
    2. Submit the jobs as usual.
    3. Place them with the applier of cycles, all in one unit, under the same locks and validation.

    Raises:
        Invalid: the node cannot start a job; the error names the field.
        Conflict: the offer has ended, or validation fails. Nothing has changed then.
    """
    _check_filter(filter_s)
    if not 0 < len(wanted) <= MAX_LAUNCHES:
        raise Invalid.field("jobs", f"send 1 to {MAX_LAUNCHES} jobs")
    offer = get_offer(user, offer_id)
    role = offer.framework.role
    pool = role.vc.pool
    with transaction.atomic(), recorded_together():
        if not accept(offer, actor=user.username):
            offer.refresh_from_db(fields=["state", "ended_at", "detail"])
            raise Conflict(_over(offer))
        jobs = [_submit(user, role, one, index) for index, one in enumerate(wanted)]
        _require_startable(offer, jobs)
        shares = _shares(offer, jobs, wanted)
        Launch.objects.bulk_create([Launch(job=job, framework=offer.framework, offer=offer) for job in jobs])
        places = [Place(job.pk, (share,)) for job, share in zip(jobs, shares, strict=True)]
        unit = Unit(tuple(with_cells(pool, places)))
        refusals = apply_unit(pool, unit, config_of(pool)).refusals
        if refusals:
            raise Conflict(f"offer {offer.pk}: {refusals[0].reason}")
        if {gpu_id for share in shares for gpu_id in share.gpu_ids} < set(offer.gpu_ids):
            set_filter(offer.framework_id, offer.node_id, filter_s)
            wake_pool(pool.pk)
    rows = Job.objects.select_related("vc", "tenant", "owner").in_bulk([job.pk for job in jobs])
    return [rows[job.pk] for job in jobs]


def _check_filter(filter_s: float) -> None:
    if not 0 <= filter_s <= MAX_FILTER_S:
        raise Invalid.field("filter", f"write at most {MAX_FILTER_S / 3600:g}h")


def _over(offer: Offer) -> str:
    """The reason why the offer cannot be used any more."""
    if offer.state == OfferState.STANDING:  # it has expired, and no cycle has ended it yet
        return f"offer {offer.pk} has expired"
    if offer.state == OfferState.ACCEPTED:
        jobs = ", ".join(str(pk) for pk in offer.launches.order_by("pk").values_list("pk", flat=True))
        return f"offer {offer.pk} was accepted, with job {jobs}"
    return f"offer {offer.pk} is {offer.state}" + (f": {offer.detail}" if offer.detail else "")


def _submit(user: User, role: Role, wanted: Wanted, index: int) -> Job:
    """The submitted job; an error in its spec carries its index."""
    if not isinstance(wanted.spec, dict):
        raise Invalid.field(f"jobs.{index}.spec", "a job spec is a mapping of keys to values")
    try:
        return submit_job(user=user, data=_spec(role, wanted.spec), has_place=True)[0]
    except MusterError as error:
        errors = tuple(FieldError(f"jobs.{index}.spec.{one.field}".rstrip("."), one.message) for one in error.errors)
        raise type(error)(f"job {index}: {error.detail}", errors=errors) from error


def _spec(role: Role, spec: dict[str, Any]) -> dict[str, Any]:
    """The spec as the role allows it: in its virtual cluster, on one node, without retries."""
    found = {"vc": role.vc.name, "retry": {"max": 0, "on": []}, **spec}
    if found["vc"] != role.vc.name:
        raise Invalid.field("vc", f"the offer is for jobs of {role.vc.name}")
    if found.get("nodes", 1) != 1:
        raise Invalid.field("nodes", "an offer is of one node")
    for key in ("after", "begin"):
        if found.get(key):
            raise Invalid.field(key, "what is launched on an offer starts at once: leave it out")
    if role.revocable:
        found = {"class": JobClass.OPPORTUNISTIC.value, **found}
        if found["class"] != JobClass.OPPORTUNISTIC.value or found.get("preemptible") is False:
            raise Invalid.field("class", f"what is launched in role {role.name} is opportunistic and can be preempted")
    return found


def _require_startable(offer: Offer, jobs: Sequence[Job]) -> None:
    """Require that all jobs allow the offer's node, and that it can start them, as far as its agent has reported."""
    said, label = offer.node.inventory, str(offer.node.labels.get("default-image", ""))
    forms = forms_of(said.get("runtimes") or (), label, said.get("mount_roots") or ())
    for index, job in enumerate(jobs):
        if field := forbidden_by(job.request, offer.node):
            raise Invalid.field(f"jobs.{index}.spec.{field}", f"the offer is of node {offer.node.name}")
        form = job.request.runtime
        if forms and form not in forms:
            raise Invalid.field(f"jobs.{index}.spec.{ASKED_BY[form]}", f"{offer.node.name} {RUNTIME_MISMATCH[form]}")


def _shares(offer: Offer, jobs: Sequence[Job], wanted: Sequence[Wanted]) -> list[AllocationView]:
    """Each job's part of the offer; `Invalid` names the first that asks for more than is left."""
    rows = Gpu.objects.filter(pk__in=offer.gpu_ids).order_by("index", "pk")
    left: dict[int, Gpu] = {gpu.pk: gpu for gpu in rows}
    rest = AllocationView(offer.node_id, 0, (), offer.cpus, offer.memory_mib)
    shares: list[AllocationView] = []
    # Jobs that name their GPUs are served first, so that no other job gets these.
    order = sorted(range(len(jobs)), key=lambda index: wanted[index].gpus is None)
    chosen: dict[int, tuple[Choice, tuple[int, ...]]] = {}
    for index in order:
        chosen[index] = _gpus(left, jobs[index], wanted[index].gpus, index)
        for gpu_id in chosen[index][1]:
            del left[gpu_id]
    for index in range(len(jobs)):
        choice, gpu_ids = chosen[index]
        for name, has, asks, unit in (
            ("cpus", rest.cpus, choice.cpus, "CPUs"),
            ("memory", rest.memory_mib, choice.memory_mib, "MiB"),
        ):
            if asks > has:
                raise Invalid.field(f"jobs.{index}.spec.{name}", f"{asks} {unit}: the offer has {has} left")
        rest = replace(rest, cpus=rest.cpus - choice.cpus, memory_mib=rest.memory_mib - choice.memory_mib)
        shares.append(AllocationView(offer.node_id, 0, gpu_ids, choice.cpus, choice.memory_mib))
    return shares


def _gpus(left: dict[int, Gpu], job: Job, uuids: Sequence[str] | None, index: int) -> tuple[Choice, tuple[int, ...]]:
    """The choice in which a job starts, and its GPUs: the named ones, or the first that fit."""
    request = job.request
    if uuids is not None:
        by_uuid = {gpu.uuid: pk for pk, gpu in left.items()}
        unknown = [uuid for uuid in uuids if uuid not in by_uuid]
        if unknown or len(set(uuids)) != len(uuids):
            message = f"{unknown[0]!r} is not in the offer, or has gone to another job" if unknown else "one is twice"
            raise Invalid.field(f"jobs.{index}.gpus", message)
        gpu_ids = tuple(by_uuid[uuid] for uuid in uuids)
        choice = request.choice_of(left[gpu_ids[0]].type if gpu_ids else None) or request.first
        if len(uuids) != choice.gpus:
            raise Invalid.field(f"jobs.{index}.gpus", f"its spec asks for {choice.gpus}, not {len(uuids)}")
        return choice, gpu_ids
    if not request.needs_gpus:
        return request.first, ()
    of_type: dict[str, list[int]] = {}
    for pk, gpu in left.items():
        of_type.setdefault(gpu.type, []).append(pk)
    for kind in request.types_among(sorted(of_type)):
        fits = request.choice_of(kind)
        if fits is not None and len(of_type[kind]) >= fits.gpus:
            return fits, tuple(of_type[kind][: fits.gpus])
    what = " or ".join(f"{choice.gpus} {choice.gpu_type or ''}".strip() for choice in request.choices)
    raise Invalid.field(f"jobs.{index}.spec.gpus", f"{what}: the offer has fewer left of one type")
