"""What would become of a job, and why it waits."""

from __future__ import annotations

from rest_framework import serializers

from muster.api.shapes.common import Choice, Flag, Integer, Moment, Shape, Text, values
from muster.api.shapes.jobs import NOTES, DryRunSize, Failure, GpuChoice, Hold, RunTimeEstimate, SpecField, Values
from muster.jobs.submit.images import JobRuntime
from scheduler.model.lifecycle import JobState


class Outlook(Shape):
    """Whether a job would first be screened on a few GPUs."""

    tried = Flag(help_text="Whether the job would be screened.")
    why = Text(help_text="Where, on how many GPUs and for how long, or why not.")
    starts_now = Flag(
        allow_null=True, help_text="Whether the screening run would start now; null if the job is not screened."
    )
    hold = Hold(allow_null=True, help_text="Why the screening run would wait.")


class RuntimeOutlook(Shape):
    """In what the job would run."""

    runtime = Choice(choices=values(JobRuntime), help_text="`either`: as its node says, for a job that names no image.")
    why = Text(help_text="The reason, as the end of a sentence.")
    nodes = Integer(help_text="Nodes of the pool that offer that, of those whose agents have said what they offer.")
    of = Integer(help_text="Nodes of the pool whose agents have said what they offer.")


class DryRun(Shape):
    """What would become of a job if it was submitted now."""

    valid = Flag(help_text="True: the spec is valid (an invalid spec is answered with a problem).")
    spec = SpecField(help_text="The spec with every default written out.")
    gpu_choices = GpuChoice(
        many=True, help_text="The GPU types that the job accepts, each with a size, in order of preference."
    )
    notes = serializers.ListField(child=Text(), help_text=NOTES)
    sizes = DryRunSize(many=True, help_text="What it would get on each node, in order of preference.")
    gpus_total = Integer(help_text="GPUs on all nodes together, by the first choice.")
    feasible = Flag(help_text="The pool could run it if it was empty.")
    fits_quota = Flag(help_text="Whether the job fits the quota of its virtual cluster.")
    starts_now = Flag(help_text="Whether the next scheduling cycle would place it.")
    hold = Hold(allow_null=True, help_text="Why it would wait; null if it would start.")
    position = Integer(
        allow_null=True, help_text="Its place in the virtual cluster's queue, from 1; null if it would start."
    )
    screening = Outlook(help_text="Whether it would first be screened on a screening pool.")
    runtime = RuntimeOutlook(help_text="Whether it would run in a container or as a process.")


class HeldJob(Shape):
    """A running job and its GPUs."""

    id = Integer(help_text="The job's number.")
    name = Text(help_text="The job's name.")
    gpus = Integer(help_text="GPUs that it holds of the type that the waiting job needs.")


class QuotaHolder(Shape):
    """A user who has GPUs of a quota."""

    owner = Text(help_text="The user's name.")
    gpus = Integer(help_text="Of the type that the job waits for.")
    jobs_total = Integer(help_text="How many jobs have these GPUs.")
    jobs = HeldJob(many=True, help_text="The largest of these jobs.")


class Why(Shape):
    """Why a job is in the state it is in."""

    state = Choice(choices=values(JobState), help_text="The state that is explained.")
    reason = Text(allow_null=True, help_text="The reason by its short name; null if there is none.")
    detail = Text(allow_blank=True, help_text="The reason as a sentence, with the number of jobs ahead in the queue.")
    evidence = Values(help_text="The figures behind the reason; the keys depend on it.")
    helps = serializers.ListField(child=Text(), help_text="Changes that would help, as sentences.")
    failure = Failure(allow_null=True, help_text="Of a job that has failed.")
    position = Integer(
        allow_null=True, help_text="Its place in the virtual cluster's queue, from 1; null if it is not queued."
    )
    ahead = Integer(allow_null=True, help_text="Jobs before it in the queue of its virtual cluster.")
    holders = QuotaHolder(many=True, help_text="The users with most GPUs of the quota that the job waits for.")
    estimate = RunTimeEstimate(allow_null=True, help_text="How long it is expected to run; null: nothing is known.")
    cycle = Integer(
        allow_null=True, help_text="The number of the pool's latest scheduling cycle; null before the first one."
    )
    at = Moment(allow_null=True, help_text="When that cycle began; null before the first one.")
