"""Whether a job may have the volumes that its spec names, and what an agent is told of them."""

from __future__ import annotations

from muster.common.errors import FieldError, Invalid
from muster.fleet.models import Pool
from muster.jobs.spec.mounts import Mounted, read_mount
from muster.tenants.models import VirtualCluster
from muster.tenants.volumes import volumes_for, why_not
from nodeagent.protocol.messages import VolumeMount


def require_volumes(mounts: list[str], vc: VirtualCluster) -> None:
    """Return if jobs of the virtual cluster may mount all of these, and raise `Invalid` with each that they may not."""
    if not mounts:
        return
    errors = [
        FieldError(f"mounts.{index}", problem)
        for index, (_, problem) in enumerate(_judged([read_mount(text) for text in mounts], vc, vc.pool))
        if problem
    ]
    if errors:
        raise Invalid.fields(errors)


def are_mounted_in(pool: Pool, mounts: list[str], vc: VirtualCluster) -> bool:
    """Whether jobs of the virtual cluster can have all of these in a pool, which need not be their own."""
    return not any(problem for _, problem in _judged([read_mount(text) for text in mounts], vc, pool))


def told_to_agents(mounts: list[str], vc: VirtualCluster, pool: Pool) -> tuple[VolumeMount, ...]:
    """The volumes of a job that starts, as they are now: one that was taken away meanwhile comes with the reason."""
    if not mounts:
        return ()
    wanted = [read_mount(text) for text in mounts]
    return tuple(
        VolumeMount(mount.volume, "" if problem else path, mount.target, mount.read_only, problem)
        for mount, (path, problem) in zip(wanted, _judged(wanted, vc, pool), strict=True)
    )


def _judged(mounts: list[Mounted], vc: VirtualCluster, pool: Pool) -> list[tuple[str, str]]:
    """The path of each volume, and why it cannot be mounted in the pool."""
    if not mounts:
        return []
    found = volumes_for(vc, [mount.volume for mount in mounts])
    rows = [(found.get(mount.volume), mount) for mount in mounts]
    return [
        (row.path if row else "", why_not(row, vc, pool, name=mount.volume, read_only=mount.read_only))
        for row, mount in rows
    ]
