"""Virtual cells and pinned cells of virtual clusters, and the bindings of running jobs to them.

docs/policies/hived.md explains cells. What is stored here has a meaning only where the pool's admission is `hived`.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from muster.common.models import check, unique
from muster.fleet.models import Pool
from muster.jobs.models import Allocation
from muster.tenants.models import VirtualCluster


class CellShare(models.Model):
    """Virtual cells of one type that a virtual cluster has."""

    vc = models.ForeignKey(VirtualCluster, on_delete=models.CASCADE, related_name="cells")
    cell = models.CharField(
        max_length=255, help_text="The type with those above it, such as 4-A100-NODE.A100-NODE: a node of such a rack."
    )
    number = models.PositiveIntegerField()
    gpu_type = models.CharField(max_length=63)
    gpus = models.PositiveIntegerField(help_text="Of one such cell.")

    class Meta:
        constraints = [
            unique("cell_share_once_a_type", ["vc", "cell"]),
            check("cell_share_not_empty", Q(number__gte=1, gpus__gte=1)),
        ]

    def __str__(self) -> str:
        return f"{self.vc}: {self.number} {self.cell}"


class PinnedCell(models.Model):
    """A physical cell that belongs to one virtual cluster."""

    vc = models.ForeignKey(VirtualCluster, on_delete=models.CASCADE, related_name="pinned_cells")
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="pinned_cells")
    address = models.CharField(max_length=255, help_text="Of the physical cell, such as rack1/node3.")
    gpu_type = models.CharField(max_length=63)
    gpus = models.PositiveIntegerField()

    class Meta:
        constraints = [unique("pinned_cell_once", ["pool", "address"])]

    def __str__(self) -> str:
        return f"{self.vc}: {self.address}"


class Chain(models.Model):
    """The lock of a pool's cells of one GPU type. A plan made for other `bindings` is checked anew."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="chains")
    gpu_type = models.CharField(max_length=63)
    bindings = models.BigIntegerField(default=0)

    class Meta:
        constraints = [unique("chain_once", ["pool", "gpu_type"])]

    def __str__(self) -> str:
        return f"{self.gpu_type} of {self.pool}"


class Binding(models.Model):
    """The GPUs of a rank that count for one virtual cell. It ends with the allocation.

    A guaranteed job has bindings for all of its GPUs, or for none: then it runs as an opportunistic one.
    """

    id = models.BigAutoField(primary_key=True)
    allocation = models.ForeignKey(Allocation, on_delete=models.CASCADE, related_name="bindings")
    cell = models.CharField(max_length=300, help_text="The virtual cell, such as 4-A100-NODE.A100-NODE/0.")
    gpu_ids = models.JSONField()

    class Meta:
        constraints = [unique("binding_once", ["allocation", "cell"])]

    def __str__(self) -> str:
        return f"{self.cell} for allocation {self.allocation_id}"
