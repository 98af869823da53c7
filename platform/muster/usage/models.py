"""The efficiency of ended jobs, the holdings of jobs by days, their waits, and the last events that were read."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from muster.common.models import check, choices, index, unique
from muster.events.models import EventReader
from muster.jobs.models import Attempt, Job, JobGroup
from scheduler.diagnosis.efficiency import Grade, NoGradeReason


class Efficiency(models.Model):
    """The grade of a job that has ended, by its longest run; or why it has none. Written once, by `usage.grade`.

    It is kept since the samples that it is made of are not, and since jobs are compared by it.
    """

    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="efficiency")
    attempt = models.PositiveIntegerField(help_text="The number of the run that it is about.")
    ended_at = models.DateTimeField(help_text="When that ended.")
    grade = models.CharField(max_length=10, choices=choices(Grade), blank=True, default="")
    silence = models.CharField(max_length=15, choices=choices(NoGradeReason), blank=True, default="")
    gpu_s = models.FloatField(help_text="GPU-seconds of the run.")
    utilization = models.FloatField(null=True, help_text="Mean of all GPUs, in percent.")
    idle_gpus = models.PositiveIntegerField(default=0)
    idle_gpu_s = models.FloatField(default=0, help_text="GPU-seconds in which they did nothing, if it has a grade.")
    use = models.JSONField(help_text="What was measured: gpus, and cpus and memory of a rank.")
    advice = models.JSONField(default=list)

    class Meta:
        verbose_name_plural = "efficiency"
        constraints = [
            check(
                "efficiency_grade_or_silence",
                Q(grade__in=sorted(one.value for one in Grade), silence="", utilization__isnull=False)
                | Q(grade="", silence__in=sorted(one.value for one in NoGradeReason), utilization__isnull=True),
            )
        ]
        indexes = [index("efficiency_graded", ["ended_at"], ~Q(grade=""))]

    def __str__(self) -> str:
        return f"efficiency of job {self.pk}"


class Reader(EventReader):
    """The last event that has been read for grades."""

    class Meta:
        constraints = [check("one_reader_for_grades", Q(id=1))]


class HeldDay(models.Model):
    """Holdings of one attempt of an ended job on a day (UTC), of one type of GPU. Written once, by `usage.count`.

    It repeats what reports tell apart, since that does not change any more, and jobs and attempts are wide rows.
    """

    pk = models.CompositePrimaryKey("attempt_id", "day", "gpu_type")
    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, related_name="+", db_index=False)
    day = models.DateField()
    gpu_type = models.CharField(max_length=63)
    # Rows that their job refers to, too, so that none of them goes.
    job_id = models.BigIntegerField()
    tenant_id = models.BigIntegerField()
    vc_id = models.BigIntegerField()
    owner_id = models.BigIntegerField()
    klass = models.CharField(max_length=14)
    state = models.CharField(max_length=10, help_text="Of the job.")
    outcome = models.CharField(max_length=20)
    failure = models.TextField(help_text="Empty if it did not fail.")
    category = models.TextField()
    retry = models.BooleanField()
    slot_us = models.BigIntegerField(help_text="Microseconds of a slot, so that sums are exact.")
    began = models.BooleanField(help_text="Whether this is its first day.")
    alone = models.BooleanField(help_text="Whether it is the only attempt of its job, and so in the totals of the day.")

    class Meta:
        indexes = [index("held_day", ["day", "alone"])]

    def __str__(self) -> str:
        return f"attempt {self.attempt_id} on {self.day}"


class DayTotal(models.Model):
    """The sum of a day over the jobs that have ended and had one attempt only, by all that reports tell apart.

    Such a job is as many attempts as it is jobs, and holds its GPUs without a break: those of a period are the ones
    that began in it, and those that were there at its start. Of other jobs `HeldDay` has to be counted.
    """

    id = models.BigAutoField(primary_key=True)
    day = models.DateField()
    tenant_id = models.BigIntegerField()
    vc_id = models.BigIntegerField()
    owner_id = models.BigIntegerField()
    gpu_type = models.CharField(max_length=63)
    klass = models.CharField(max_length=14)
    state = models.CharField(max_length=10)
    outcome = models.CharField(max_length=20)
    failure = models.TextField()
    category = models.TextField()
    slot_us = models.BigIntegerField()
    attempts = models.BigIntegerField(help_text="That held something on this day.")
    began = models.BigIntegerField(help_text="Of these, the ones whose first day it is.")

    class Meta:
        constraints = [
            unique(
                "day_total_once",
                [
                    *("day", "tenant_id", "vc_id", "owner_id", "gpu_type"),
                    *("klass", "state", "outcome", "failure", "category"),
                ],
            ),
            check("day_total_adds_up", Q(slot_us__gte=0, began__gte=0, attempts__gte=models.F("began"))),
        ]

    def __str__(self) -> str:
        return f"{self.day}, virtual cluster {self.vc_id}"


class Finish(models.Model):
    """The duration of an ended application, and its share. Written once, by `usage.count`.

    docs/operator/fairness.md defines the figures.
    """

    # They repeat columns of the application, so that scopes fit and weeks are read from these tables alone.
    tenant_id = models.BigIntegerField()
    vc_id = models.BigIntegerField()
    owner_id = models.BigIntegerField()
    ended_at = models.DateTimeField()
    taken_s = models.FloatField(help_text="From submission to end.")
    pool_gpus = models.PositiveIntegerField()
    quota_gpus = models.PositiveIntegerField(help_text="Of its virtual cluster, as far as the pool has them.")
    contention = models.FloatField(help_text="Mean number of applications in the pool while it was there.")
    vc_contention = models.FloatField(help_text="The same for its virtual cluster.")
    rho_cluster = models.FloatField(null=True)
    rho_quota = models.FloatField(null=True)

    class Meta:
        abstract = True


class FinishTime(Finish):
    """The finish time of a job outside of any group. A job that never ran or has no GPUs has no row."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="finish_time")
    alone_s = models.FloatField(help_text="The run time of its work on the GPUs that it asks for.")

    class Meta:
        indexes = [index("finish_time_ended", ["ended_at"])]

    def __str__(self) -> str:
        return f"finish time of job {self.pk}"


class GroupFinishTime(Finish):
    """The finish time of a group of jobs, such as a sweep."""

    group = models.OneToOneField(JobGroup, on_delete=models.CASCADE, primary_key=True, related_name="finish_time")
    total_gpu_s = models.FloatField(help_text="The work of all members, on the GPUs that they ask for.")
    longest_s = models.FloatField(help_text="The longest member's.")
    demand = models.PositiveIntegerField(help_text="The GPUs that it asked for at its submission.")

    class Meta:
        indexes = [index("group_finish_time_ended", ["ended_at"])]

    def __str__(self) -> str:
        return f"finish time of group {self.pk}"


class StartDelay(models.Model):
    """The wait before one start of a job, by delays, s. Written once, by `usage.count`; `muster.usage.delays`."""

    event_id = models.BigIntegerField(primary_key=True, help_text="The event of the placement.")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="start_delays")
    # They repeat columns of the job, so that scopes fit and reports read this table alone.
    tenant_id = models.BigIntegerField()
    vc_id = models.BigIntegerField()
    owner_id = models.BigIntegerField()
    gpus = models.PositiveIntegerField(help_text="Of the whole gang, by the job's first choice.")
    started_at = models.DateTimeField(help_text="When it was placed.")
    not_eligible_s = models.FloatField()
    fair_share_s = models.FloatField()
    capacity_s = models.FloatField()
    apart_s = models.FloatField(help_text="Fragmentation alone.")
    order_s = models.FloatField()
    other_s = models.FloatField()

    class Meta:
        indexes = [index("start_delay_started", ["started_at"]), index("start_delay_of_vc", ["vc_id", "started_at"])]

    def __str__(self) -> str:
        return f"wait of job {self.job_id} until {self.started_at}"


class DelayReader(EventReader):
    """The last event up to which the waits before starts have been summed up."""

    class Meta:
        constraints = [check("one_reader_for_delays", Q(id=1))]
