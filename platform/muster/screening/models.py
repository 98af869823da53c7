"""Pools whose jobs are screened in another pool, and the results of the screening runs."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q

from muster.common.models import DatabaseNow, check, choices, index, one_of
from muster.fleet.models import Pool
from muster.jobs.models import Attempt, Job
from muster.tenants.models import Tenant
from scheduler.diagnosis.screening import Rules, ScreeningVerdict

MAX_MINUTES, MAX_WAIT_S, MAX_TRUST_DAYS = 120.0, 86_400.0, 365.0
ONE, TWO = 1, 2


class PoolScreening(models.Model):
    """That the large jobs of one pool are screened in another one, and how."""

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, related_name="screening")
    screening_pool = models.ForeignKey(
        Pool,
        on_delete=models.PROTECT,
        related_name="screens",
        help_text="Where its jobs are screened; it needs few GPUs.",
    )
    min_gpus = models.PositiveIntegerField(
        default=2, validators=[MinValueValidator(1)], help_text="A job of more GPUs than these is screened."
    )
    minutes = models.FloatField(
        default=5,
        validators=[MaxValueValidator(MAX_MINUTES)],
        help_text="How long a screening run is; it ends before that with the job's first step.",
    )
    world = models.PositiveSmallIntegerField(
        default=TWO,
        choices=[(ONE, "one"), (TWO, "two, or one where no two are free")],
        help_text="On how many GPUs a job is screened.",
    )
    max_wait_s = models.FloatField(
        default=600,
        validators=[MinValueValidator(0), MaxValueValidator(MAX_WAIT_S)],
        help_text="A job that has waited for its screening run for so long goes on unscreened.",
    )
    trust_days = models.FloatField(
        default=7,
        validators=[MinValueValidator(0), MaxValueValidator(MAX_TRUST_DAYS)],
        help_text="What has passed is not screened again for so long; 0: it always is.",
    )
    tenant_gpus = models.PositiveIntegerField(
        default=2,
        validators=[MinValueValidator(1)],
        help_text="How many GPUs of the screening pool the runs of one tenant may hold at once.",
    )

    class Meta:
        verbose_name = verbose_name_plural = "screening of pools"
        constraints = [
            check("screening_in_another_pool", ~Q(pool=F("screening_pool"))),
            check(
                "screening_has_sense",
                Q(min_gpus__gte=1)
                & Q(minutes__gt=0, minutes__lte=MAX_MINUTES)
                & Q(world__in=[ONE, TWO])
                & Q(max_wait_s__gte=0, max_wait_s__lte=MAX_WAIT_S)
                & Q(trust_days__gte=0, trust_days__lte=MAX_TRUST_DAYS)
                & Q(tenant_gpus__gte=1),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pool} in {self.screening_pool}"

    @property
    def rules(self) -> Rules:
        return Rules(
            minutes=self.minutes,
            min_gpus=self.min_gpus,
            world=self.world,
            max_wait_s=self.max_wait_s,
            trust_days=self.trust_days,
        )

    def clean(self) -> None:
        """Refuse what would try jobs in a circle: a pool that screens has no screening of its own."""
        if self.minutes is not None and self.minutes <= 0:
            raise ValidationError({"minutes": "a screening run must be longer than 0 minutes"})
        if self.pool_id is None or self.screening_pool_id is None:
            return  # the form says so
        if self.pool_id == self.screening_pool_id:
            raise ValidationError({"screening_pool": "a pool cannot screen for itself"})
        others = PoolScreening.objects.exclude(pk=self.pk)
        if others.filter(pool_id=self.screening_pool_id).exists():
            raise ValidationError(
                {"screening_pool": f"jobs of {self.screening_pool} are screened in another pool themselves"}
            )
        screened = others.filter(screening_pool_id=self.pool_id).select_related("pool").first()
        if screened is not None:
            raise ValidationError({"pool": f"{self.pool} is where jobs of {screened.pool} are screened"})


class ScreeningResult(models.Model):
    """The result of one screening run of a job, or why it had none; written once, when it is known.

    `spent_gpu_s` is what the run held of the screening pool. `full_gpu_s` is what the job's full gang would have
    computed until it failed as the run did: GPUs asked x seconds to the failure; 0 where nothing failed. Of that
    `saved_gpu_s` was saved: all of it where the verdict is `failed`, and else nothing.
    """

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="screening_results")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="screening_results", db_index=False)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="screening_results", help_text="Of its gang.")
    attempt = models.OneToOneField(
        Attempt, on_delete=models.CASCADE, null=True, related_name="+", help_text="None: the job was not screened."
    )
    verdict = models.CharField(max_length=12, choices=choices(ScreeningVerdict))
    detail = models.CharField(max_length=500, blank=True, default="", help_text="Why, in words.")
    failure = models.CharField(max_length=60, blank=True, default="", help_text="The class of its failure.")
    line = models.CharField(max_length=400, blank=True, default="")
    hint = models.TextField(blank=True, default="")
    digest = models.CharField(max_length=64, help_text="SHA-256 of what it runs: scheduler.diagnosis.screening.")
    gpus_asked = models.PositiveIntegerField(help_text="By the job, for its whole gang.")
    gpus = models.PositiveIntegerField(default=0, help_text="Of the screening run.")
    waited_s = models.FloatField(default=0, help_text="For the run, also where it never started.")
    ran_s = models.FloatField(default=0)
    spent_gpu_s = models.FloatField(default=0)
    full_gpu_s = models.FloatField(default=0)
    saved_gpu_s = models.FloatField(default=0)
    at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        constraints = [
            one_of("verdict", ScreeningVerdict, name="screening_verdict_known"),
            check("screening_saves_by_failing", Q(verdict=ScreeningVerdict.FAILED) | Q(saved_gpu_s=0)),
        ]
        indexes = [
            index("screening_passed", ["tenant", "digest", "-at"], Q(verdict=ScreeningVerdict.PASSED)),
            index("screening_result_at", ["at"]),
        ]

    def __str__(self) -> str:
        return f"screening of job {self.job_id}: {self.verdict}"
