"""Frameworks and offers as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from muster.common.clock import moment
from muster.fleet.models import Gpu
from muster.fleet.runtimes import forms_of
from muster.offers import models
from muster_client.answers.offers import Framework, Offer, OfferedGpu


def framework(row: models.Framework) -> Framework:
    """A framework."""
    return {
        "id": row.pk,
        "role": row.role.name,
        "vc": row.role.vc.name,
        "pool": row.role.vc.pool.name,
        "revocable": row.role.revocable,
        "needs": row.needs,
        "registered_at": moment(row.registered_at),
    }


def offer_list(offers: Sequence[models.Offer]) -> list[Offer]:
    """The offers with their GPUs, which take one query for all of them."""
    gpu_ids = [gpu_id for offer in offers for gpu_id in offer.gpu_ids]
    columns = Gpu.objects.filter(pk__in=gpu_ids).values_list("id", "uuid", "index", "type", "memory_mib")
    gpus: dict[int, OfferedGpu] = {
        pk: {"uuid": uuid, "index": index, "type": kind, "memory_mib": memory}
        for pk, uuid, index, kind, memory in columns
    }
    return [
        {
            "id": offer.pk,
            "framework": offer.framework_id,
            "role": offer.framework.role.name,
            "node": offer.node.name,
            "runtimes": _texts(offer, "runtimes"),
            "starts": _starts(offer),
            "gpus": [gpus[gpu_id] for gpu_id in offer.gpu_ids if gpu_id in gpus],
            "cpus": offer.cpus,
            "memory_mib": offer.memory_mib,
            "revocable": offer.framework.role.revocable,
            "made_at": moment(offer.made_at),
            "expires_at": moment(offer.expires_at),
        }
        for offer in offers
    ]


def _starts(offer: models.Offer) -> list[str]:
    default_image = str(offer.node.labels.get("default-image", ""))
    return [form.value for form in forms_of(_texts(offer, "runtimes"), default_image, _texts(offer, "mount_roots"))]


def _texts(offer: models.Offer, what: str) -> list[str]:
    """The agent's strings for one thing, as `standing_offers` has read it beside the offer."""
    return [str(one) for one in getattr(offer, what) or ()]
