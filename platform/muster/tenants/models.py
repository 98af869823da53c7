"""The tree of tenants: organisations, tenants with members and caps, virtual clusters; their quotas and loans."""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import F, Q

from muster.common.models import DatabaseNow, check, choices, index, one_of, unique
from muster.fleet.models import SLUG, Pool
from muster.tenants.roles import Role
from nodeagent.protocol.messages import MAX_PATH_CHARS, is_below, source_problem
from scheduler.diagnosis.idle import Action
from scheduler.diagnosis.screening import Mode


class TreeNode(models.Model):
    """A node of the tree of tenants: it has a weight among its siblings, and a version that each edit raises."""

    weight = models.FloatField(default=1, help_text="Its shares among its siblings, for policies that divide a pool.")
    version = models.IntegerField(default=1, editable=False)
    changed_at = models.DateTimeField(db_default=DatabaseNow(), editable=False)
    changed_by = models.CharField(max_length=150, blank=True, default="", editable=False)

    class Meta:
        abstract = True


class Limits(models.Model):
    """GPUs that a node of the tree is promised, and how many more it may borrow and how many of them others may."""

    gpu_type = models.CharField(max_length=63)
    gpus = models.IntegerField()
    borrowing = models.IntegerField(
        "borrowing limit",
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
        help_text="How many GPUs it may borrow; empty: no limit.",
    )
    lending = models.IntegerField(
        "lending limit",
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
        help_text="How many of its GPUs others may borrow; empty: all.",
    )

    class Meta:
        abstract = True


def _not_negative(name: str) -> list[models.CheckConstraint]:
    return [
        check(f"{name}_not_negative", Q(gpus__gte=0)),
        check(f"{name}_borrowing_not_negative", Q(borrowing__gte=0)),
        check(f"{name}_lending_not_negative", Q(lending__gte=0)),
    ]


class Organisation(TreeNode):
    """Tenants, and organisations, that lend each other what they do not use before they lend it to others."""

    name = models.CharField(max_length=63, unique=True, validators=[SLUG])
    parent = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="organisations")
    created_at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        constraints = [
            check("organisation_weight_positive", Q(weight__gt=0)),
            # A longer cycle is refused under the lock of all organisations: see `edits.require_no_cycle`.
            check("organisation_not_its_own_parent", ~Q(parent=F("id"))),
        ]

    def __str__(self) -> str:
        return self.name


class Tenant(TreeNode):
    """A group of people that shares virtual clusters."""

    name = models.CharField(max_length=63, unique=True, validators=[SLUG])
    organisation = models.ForeignKey(
        Organisation, on_delete=models.PROTECT, null=True, blank=True, related_name="tenants"
    )
    screening = models.CharField(
        max_length=6,
        choices=choices(Mode),
        default=Mode.AUTO,
        help_text="Whether jobs first run on a few GPUs, in pools with screening; auto: as each job says.",
    )
    created_at = models.DateTimeField(db_default=DatabaseNow())
    members = models.ManyToManyField(settings.AUTH_USER_MODEL, through="Membership", related_name="tenants")
    idle_action = models.CharField(
        max_length=4,
        choices=choices(Action),
        default=Action.WARN,
        help_text="What happens to a job whose GPUs are all idle, unless its spec says something else.",
    )
    idle_below = models.FloatField(default=5, help_text="GPUs below this utilisation, in per cent, count as idle.")
    idle_for_s = models.FloatField(default=3600, help_text="For how many seconds they must be idle: 120 to a week.")
    idle_binding = models.BooleanField(
        default=False, help_text="Whether this rule wins over a spec that asks for less."
    )

    wait_for_hardware = models.BooleanField(
        default=False,
        help_text="Whether jobs that no node or quota of their pool can meet today may be submitted. They wait until "
        "one can.",
    )

    class Meta:
        constraints = [
            check("tenant_weight_positive", Q(weight__gt=0)),
            one_of("screening", Mode, name="tenant_screening_known"),
            one_of("idle_action", Action, name="tenant_idle_action_known"),
            check("tenant_idle_below_is_a_percentage", Q(idle_below__gt=0, idle_below__lte=100)),
            check("tenant_idle_for_up_to_a_week", Q(idle_for_s__gte=120, idle_for_s__lte=7 * 86_400)),
        ]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """A user's role in a tenant."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=choices(Role), default=Role.MEMBER)

    class Meta:
        constraints = [
            unique("membership_once", ["tenant", "user"]),
            one_of("role", Role, name="membership_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.tenant}: {self.role}"


class VirtualCluster(TreeNode):
    """A tenant's share of one pool. A job's pool is its virtual cluster's."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="virtual_clusters")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="virtual_clusters")
    name = models.CharField(max_length=63, unique=True, validators=[SLUG])
    created_at = models.DateTimeField(db_default=DatabaseNow())
    closed_at = models.DateTimeField(
        null=True, editable=False, help_text="When it was deleted; the row stays for the jobs that ran in it."
    )

    class Meta:
        constraints = [check("virtual_cluster_weight_positive", Q(weight__gt=0))]

    def __str__(self) -> str:
        return self.name


class PrivateRegistry(models.Model):
    """A registry of images that some tenant has credentials for, or had.

    Rows stay: images that were pulled with credentials may lie on nodes long after these are gone.
    """

    host = models.CharField(max_length=255, primary_key=True)
    since = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        verbose_name_plural = "private registries"

    def __str__(self) -> str:
        return self.host


class RegistryCredentials(models.Model):
    """Credentials of a tenant's jobs at a registry. The password is stored encrypted and goes to agents only."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="registries")
    registry = models.ForeignKey(PrivateRegistry, on_delete=models.PROTECT, related_name="credentials")
    username = models.CharField(max_length=200)
    sealed_password = models.TextField(editable=False)
    changed_at = models.DateTimeField(db_default=DatabaseNow())
    changed_by = models.CharField(max_length=150)

    class Meta:
        verbose_name = verbose_name_plural = "registry credentials"
        constraints = [unique("registry_once_a_tenant", ["tenant", "registry"])]

    def __str__(self) -> str:
        return f"{self.registry_id} for {self.tenant}"


class Volume(models.Model):
    """A folder of the nodes that jobs of a tenant may mount by its name. See `muster.tenants.volumes`."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="volumes")
    vc = models.ForeignKey(
        VirtualCluster,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="volumes",
        verbose_name="virtual cluster",
        help_text="Empty: every one of the tenant.",
    )
    name = models.CharField(max_length=63, validators=[SLUG], help_text="As jobs name it.")
    path = models.CharField(
        max_length=MAX_PATH_CHARS,
        help_text="The folder on the nodes, below a mount root of the pool, such as /data/seg.",
    )
    writable = models.BooleanField(
        default=False, help_text="Whether jobs may write there, as far as their user may. Else they only read."
    )
    created_at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        constraints = [unique("volume_once_a_tenant", ["tenant", "name"])]

    def __str__(self) -> str:
        return f"{self.name} of {self.tenant}"

    def clean(self) -> None:
        """Refuses a folder that no pool of the tenant would mount, by field."""
        errors: dict[str, str] = {}
        if self.vc is not None and self.vc.tenant_id != self.tenant_id:
            errors["vc"] = "It is not this tenant's."
        problem = source_problem(self.path) if self.path else ""
        if problem:
            errors["path"] = f"{problem[0].upper()}{problem[1:]}."
        elif self.path and self.tenant_id is not None and not errors:
            pools = Pool.objects.filter(virtual_clusters__tenant_id=self.tenant_id).distinct().order_by("name")
            if self.vc is not None:
                pools = pools.filter(pk=self.vc.pool_id)
            if not any(is_below(self.path, pool.roots) for pool in pools):
                names = ", ".join(f"{pool.name}: {' '.join(pool.roots) or 'none'}" for pool in pools)
                errors["path"] = f"It is below no mount root of the tenant's pools ({names or 'it has none'})."
        if errors:
            raise ValidationError(errors)


class Quota(Limits):
    """The number of GPUs of one type that a virtual cluster may hold at a time without borrowing."""

    vc = models.ForeignKey(VirtualCluster, on_delete=models.CASCADE, related_name="quotas")

    class Meta:
        constraints = [unique("quota_once_per_type", ["vc", "gpu_type"]), *_not_negative("quota")]

    def __str__(self) -> str:
        return f"{self.vc}: {self.gpus} {self.gpu_type}"


class CommonQuota(Limits):
    """GPUs of one type in a pool that an organisation or a tenant is promised itself; all below it may use them."""

    organisation = models.ForeignKey(
        Organisation, on_delete=models.CASCADE, null=True, blank=True, related_name="quotas"
    )
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, null=True, blank=True, related_name="quotas")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="common_quotas")

    class Meta:
        constraints = [
            check("common_quota_of_one_owner", Q(organisation__isnull=True) ^ Q(tenant__isnull=True)),
            models.UniqueConstraint(
                fields=["organisation", "tenant", "pool", "gpu_type"],
                name="common_quota_once_per_type",
                nulls_distinct=False,
            ),
            *_not_negative("common_quota"),
        ]

    def __str__(self) -> str:
        return f"{self.organisation or self.tenant} in {self.pool}: {self.gpus} {self.gpu_type}"


class Cap(models.Model):
    """Limits on one user of a tenant, on each with a role, or on each member; of each limit the most specific that is
    not empty counts."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="caps")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, blank=True, related_name="caps"
    )
    role = models.CharField(max_length=10, choices=choices(Role), blank=True, default="")
    gpus = models.IntegerField("GPUs at once", null=True, blank=True, validators=[MinValueValidator(0)])
    jobs = models.IntegerField("jobs at once", null=True, blank=True, validators=[MinValueValidator(0)])
    gpu_hours_month = models.FloatField("GPU-hours a month", null=True, blank=True, validators=[MinValueValidator(0)])
    time_s = models.FloatField("longest time, s", null=True, blank=True, validators=[MinValueValidator(1)])
    job_gpus = models.IntegerField("GPUs of one job", null=True, blank=True, validators=[MinValueValidator(0)])

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "user", "role"], name="cap_once", nulls_distinct=False),
            check("cap_of_user_or_role", Q(user__isnull=True) | Q(role="")),
            check("cap_role_known", Q(role__in=["", *sorted(role.value for role in Role)])),
            check(
                "cap_not_negative",
                Q(
                    Q(gpus__isnull=True) | Q(gpus__gte=0),
                    Q(jobs__isnull=True) | Q(jobs__gte=0),
                    Q(gpu_hours_month__isnull=True) | Q(gpu_hours_month__gte=0),
                    Q(job_gpus__isnull=True) | Q(job_gpus__gte=0),
                    Q(time_s__isnull=True) | Q(time_s__gte=1),
                ),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tenant}: {self.user or self.role or 'each member'}"


class Loan(models.Model):
    """GPUs of a virtual cluster, a tenant or an organisation that another virtual cluster has borrowed."""

    borrower = models.ForeignKey(VirtualCluster, on_delete=models.CASCADE, related_name="borrowed")
    lender_vc = models.ForeignKey(VirtualCluster, on_delete=models.CASCADE, null=True, related_name="lent")
    lender_tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, null=True, related_name="lent")
    lender_organisation = models.ForeignKey(Organisation, on_delete=models.CASCADE, null=True, related_name="lent")
    gpu_type = models.CharField(max_length=63)
    gpus = models.IntegerField()
    since = models.DateTimeField(db_default=DatabaseNow())
    until = models.DateTimeField(null=True)

    class Meta:
        constraints = [check("loan_positive", Q(gpus__gt=0))]
        indexes = [index("loan_of_borrower", ["borrower", "until"])]

    def __str__(self) -> str:
        return f"{self.borrower}: {self.gpus} {self.gpu_type}"
