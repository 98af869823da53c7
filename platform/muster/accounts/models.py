"""Users, API tokens, sessions, and what limits sign-ins."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.models import AbstractUser
from django.contrib.auth.models import UserManager as DjangoUserManager
from django.contrib.postgres.fields import ArrayField
from django.db import models, transaction
from django.db.models import Q

from muster.accounts.scopes import Scope
from muster.accounts.uids import free_uid, validate_gids, validate_uid
from muster.common.models import DatabaseNow, check, unique


class UserManager(DjangoUserManager["User"]):
    """Gives a uid to each new user, so that `createsuperuser` does so too."""

    use_in_migrations = False

    def create_user(self, username: str, email: str | None = None, password: str | None = None, **fields: Any) -> User:
        """A new user with a uid of their own."""
        with transaction.atomic():
            return super().create_user(username, email, password, **{"uid": free_uid(), **fields})

    def create_superuser(
        self, username: str, email: str | None = None, password: str | None = None, **fields: Any
    ) -> User:
        """A new operator with a uid of their own."""
        with transaction.atomic():
            return super().create_superuser(username, email, password, **{"uid": free_uid(), **fields})


class User(AbstractUser):
    """A person. `is_staff` makes an operator of the cluster; roles inside a tenant are memberships.

    The user's jobs run with `uid` and `gids` on nodes whose agents are root. Two users never have the same `uid`.
    """

    uid = models.PositiveIntegerField(
        unique=True,
        blank=True,
        validators=[validate_uid],
        help_text="Unix uid of this user's jobs. Leave it empty to take a free one from MUSTER_UID_RANGE.",
        error_messages={"unique": "Another user has this uid."},
    )
    gids = models.JSONField(
        default=list,
        blank=True,
        validators=[validate_gids],
        help_text="Unix group ids of this user's jobs, such as [1000, 1001]; empty: one group with the uid's number.",
    )

    objects: ClassVar[UserManager] = UserManager()

    confined_to: int | None = None
    """The id of the only tenant of a request with the token of a job; None for other requests."""

    class Meta(AbstractUser.Meta):
        constraints = [check("user_uid_not_root", Q(uid__gt=0))]

    @property
    def is_operator(self) -> bool:
        """True if the user runs the cluster; never with the token of a job."""
        return self.is_active and self.is_staff and self.confined_to is None


class ApiToken(models.Model):
    """The right of a script to act as its user, within scopes. Only the digest is stored; the secret is shown once."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12)
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(db_default=DatabaseNow())
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    scopes = ArrayField(models.CharField(max_length=10))
    survives_password_change = models.BooleanField(
        default=False, help_text="Whether the token stays when its user's password changes."
    )

    class Meta:
        constraints = [
            unique("token_name", ["user", "name"], Q(revoked_at__isnull=True)),
            check(
                "token_scopes",
                Q(scopes__contains=[Scope.READ.value], scopes__contained_by=[scope.value for scope in Scope]),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class Session(models.Model):
    """A browser's session. Only the digest of its key is stored, so a copy of the table opens no session."""

    key_digest = models.CharField(max_length=64, unique=True)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sessions", null=True)
    data = models.TextField()
    created_at = models.DateTimeField(db_default=DatabaseNow())
    last_used_at = models.DateTimeField(db_default=DatabaseNow())
    expires_at = models.DateTimeField()
    address = models.GenericIPAddressField(null=True, help_text="Where the user signed in from.")
    user_agent = models.CharField(max_length=200, default="", help_text="The browser's own name for itself.")

    def __str__(self) -> str:
        return f"session of {self.user} since {self.created_at:%Y-%m-%d %H:%M}"


class RateLimit(models.Model):
    """One counter of attempts: each moves `drained_at` further, and the counter is full when it is too far ahead."""

    key = models.CharField(primary_key=True, max_length=64)
    drained_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.key


class KnownAddress(models.Model):
    """An address from which the user has signed in; of an IPv6 address the first one of its /64 network."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="known_addresses")
    address = models.GenericIPAddressField()
    last_used_at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        verbose_name_plural = "known addresses"
        constraints = [unique("known_address_once", ["user", "address"])]

    def __str__(self) -> str:
        return f"{self.user} at {self.address}"
