"""Facts about the user of a submission, read once for all jobs of a request."""

from __future__ import annotations

from dataclasses import dataclass

from muster.accounts.models import User
from muster.common.errors import Invalid
from muster.common.rows import Whole
from muster.common.statements import Statement
from muster.fleet.models import Pool
from muster.jobs.spec.shares import Shares
from muster.tenants.caps import Caps, caps_of
from muster.tenants.models import Tenant, VirtualCluster
from muster.tenants.selectors import is_manager, tenants_of, virtual_clusters_of

_VC, _TENANT, _POOL = Whole(VirtualCluster, alias="vc"), Whole(Tenant, alias="tenant"), Whole(Pool, alias="pool")
_SELECT = (
    f"SELECT {_VC.columns}, {_TENANT.columns}, {_POOL.columns},"  # noqa: S608 (the models' own columns)
    " EXISTS (SELECT FROM tenants_cap cap WHERE cap.tenant_id = vc.tenant_id)"
    " FROM tenants_virtualcluster vc JOIN tenants_tenant tenant ON tenant.id = vc.tenant_id"
    " JOIN fleet_pool pool ON pool.id = vc.pool_id"
)
_WITHIN = " AND vc.tenant_id = coalesce(%s, vc.tenant_id)"
_NAMED = Statement(
    f"{_SELECT} WHERE vc.name = %s AND vc.closed_at IS NULL AND (%s OR EXISTS ("
    "SELECT FROM tenants_membership mine WHERE mine.tenant_id = vc.tenant_id AND mine.user_id = %s))"
    f"{_WITHIN} LIMIT 1"
)
# Where the user's jobs go if they name no virtual cluster: the first of their own memberships.
_DEFAULT = Statement(
    f"{_SELECT} JOIN tenants_membership mine ON mine.tenant_id = vc.tenant_id"
    f" WHERE mine.user_id = %s AND vc.closed_at IS NULL{_WITHIN} ORDER BY mine.id, vc.id LIMIT 1"
)


@dataclass(frozen=True, slots=True)
class _Place:
    """A virtual cluster with its tenant and its pool, and the limits that hold for the user there."""

    vc: VirtualCluster
    caps: Caps


class Desk:
    """The virtual clusters of a user by the names that specs give, and what the user may do there.

    It serves one request. Its answers may be outdated when the jobs are stored, as those of all checks before that.
    """

    def __init__(self, user: User) -> None:
        self._user = user
        self._places: dict[str | None, _Place] = {}
        self._manages: dict[int, bool] = {}
        self._shares: dict[int, Shares] = {}

    def virtual_cluster(self, name: str | None) -> VirtualCluster:
        """The virtual cluster with this name, or the user's default one for None; `Invalid` if there is none that the
        user may use."""
        return self._place(name).vc

    def caps(self, name: str | None) -> Caps:
        """The limits that hold for the user in the tenant of this virtual cluster."""
        return self._place(name).caps

    def shares(self, pool: Pool) -> Shares:
        """The CPUs and the memory that the pool gives to jobs that name none."""
        return self._shares.setdefault(pool.pk, Shares(pool))

    def manages(self, tenant: Tenant) -> bool:
        """Whether the user may act on other members' jobs of the tenant."""
        if tenant.pk not in self._manages:
            self._manages[tenant.pk] = is_manager(self._user, tenant.pk)
        return self._manages[tenant.pk]

    def _place(self, name: str | None) -> _Place:
        if name not in self._places:
            self._places[name] = self._read(name)
        return self._places[name]

    def _read(self, name: str | None) -> _Place:
        user = self._user
        within = user.confined_to
        if name is None:
            rows = _DEFAULT.rows(user.pk, within)
        else:
            rows = _NAMED.rows(name, user.is_operator or within is not None, user.pk, within)
        if not rows:
            unknown = "You are in no tenant. Name a virtual cluster."
            if name is not None:
                unknown = f"there is no virtual cluster {name!r} that you may use"
            raise Invalid.field("vc", self._no_virtual_cluster() or unknown)
        values = iter(rows[0])
        vc = _VC.take(values)
        vc.tenant, vc.pool = _TENANT.take(values), _POOL.take(values)
        return _Place(vc, caps_of(vc.tenant_id, user.pk) if next(values) else Caps())

    def _no_virtual_cluster(self) -> str | None:
        """The reason why the user can submit nowhere, and whom to ask; None if there is a virtual cluster to name."""
        if virtual_clusters_of(self._user).exists():
            return None
        if tenants_of(self._user).exists():
            return "Your tenant has no virtual cluster yet. Ask an operator."
        return "You are in no tenant yet. Ask an operator to add you to one."
