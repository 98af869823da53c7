"""Sweeps and their members."""

from __future__ import annotations

from rest_framework import serializers

from muster.api.shapes.common import Choice, Flag, Integer, Moment, Number, Shape, Text, values
from muster.api.shapes.jobs import NOTES, Values
from muster.jobs.groups.progress import MEMBER_STATES
from scheduler.model.lifecycle import GroupState
from scheduler.search.rungs import Goal, Method

_STATES = [(name, name) for name in MEMBER_STATES]


class MemberCounts(Shape):
    """How many members of a sweep are in each state."""

    total = Integer(help_text="All members.")
    waiting = Integer(help_text="In the queue.")
    running = Integer(help_text="With GPUs.")
    paused = Integer(help_text="Held back at a rung until the others are there.")
    succeeded = Integer(help_text="Ended well.")
    failed = Integer(help_text="Failed.")
    stopped = Integer(help_text="Stopped early by the sweep.")
    cancelled = Integer(help_text="Cancelled by a user.")


class BestMember(Shape):
    """The member with the best value so far."""

    job = Integer(help_text="The number of its job.")
    member = Integer(help_text="Its number in the sweep, from 1.")
    params = Values(help_text="Its parameters.")
    value = Number(help_text="The best value that it has reported.")
    step = Number(allow_null=True, help_text="The step at which it reported that.")


class Rung(Shape):
    """A number of steps at which members are compared."""

    steps = Integer(help_text="Steps of the rung.")
    reached = Integer(help_text="Members that have reached it.")
    kept = Integer(help_text="Of those, members that were neither stopped nor paused there.")


class SweepRho(Shape):
    """How much slower the sweep is than with GPUs of its own."""

    cluster = Number(allow_null=True, help_text="Against an equal part of the cluster; null: not known.")
    quota = Number(allow_null=True, help_text="Against the quota of its virtual cluster; null: not known.")
    sentence = Text(help_text="The same in words.")


class SweepInList(Shape):
    """A sweep without its spec."""

    id = Integer(help_text="The sweep's number.")
    name = Text(help_text="The sweep's name, which its members have too.")
    tenant = Text(help_text="The name of its tenant.")
    vc = Text(help_text="The name of its virtual cluster.")
    pool = Text(help_text="The name of its pool.")
    owner = Text(help_text="The username of its owner.")
    state = Choice(choices=values(GroupState), help_text="The state of the sweep as a whole.")
    reason = Text(allow_blank=True, help_text="Why it ended so; empty if there is nothing to say.")
    method = Choice(choices=values(Method), help_text="How parameters are chosen, and whether members stop early.")
    metric = Text(help_text="The figure by which members are compared.")
    goal = Choice(choices=values(Goal), help_text="Whether less or more of the metric is better.")
    params = serializers.ListField(child=Text(), help_text="The names of its parameters, in order.")
    parallel = Integer(help_text="Members that run at once, at most.")
    members = MemberCounts(help_text="How many members there are, by state.")
    best = BestMember(allow_null=True, help_text="Null: no member has reported a finite value of the metric.")
    gpu_hours = Number(help_text="That its members have had so far.")
    saved_gpu_hours = Number(help_text="That early stops have saved: an estimate by each member's own speed.")
    submitted_at = Moment(help_text="When it was submitted.")
    ended_at = Moment(allow_null=True, help_text="When its last member ended; null: it goes on.")
    cloned_from = Integer(allow_null=True, help_text="The number of the sweep that this one is a clone of.")


class Sweep(SweepInList):
    """A sweep with its spec and its progress."""

    spec = Values(help_text="The spec as it was submitted, with every default written out.")
    best_so_far = serializers.ListField(
        child=serializers.ListField(child=Number(), min_length=2, max_length=2),
        help_text="Pairs: seconds since the submission, and the best value of all members then.",
    )
    rungs = Rung(many=True, help_text="Where members are compared; empty for grid and random.")
    rho = SweepRho(allow_null=True, help_text="Null: nothing is known of it yet.")


class SubmittedSweep(Sweep):
    """A sweep that was accepted."""

    notes = serializers.ListField(child=Text(), help_text=NOTES)
    warnings = serializers.ListField(
        child=Text(), help_text="What keeps it from ever starting as things are, where its tenant waits for hardware."
    )


class RetriedSweep(Sweep):
    """A sweep of which members run again."""

    retried = Integer(help_text="How many members run again.")


class SweepPage(Shape):
    """A page of sweeps, newest first."""

    results = SweepInList(many=True, help_text="The sweeps of this page.")
    next = Text(allow_null=True, help_text="The cursor of the next page; null on the last page.")


class SweepFilter(Shape):
    """Which sweeps a list shows."""

    state = Choice(choices=values(GroupState), required=False, help_text="Sweeps in this state.")
    mine = Flag(required=False, default=False, help_text="Only the caller's own.")
    limit = Integer(required=False, default=50, min_value=1, max_value=200, help_text="Sweeps on a page.")
    cursor = Text(required=False, help_text="`next` of the page before.")


class SweepMember(Shape):
    """A member of a sweep: one job."""

    member = Integer(help_text="Its number in the sweep, from 1.")
    job = Integer(help_text="The number of its job.")
    state = Choice(choices=_STATES, help_text="Its state, as the sweep sees it.")
    params = Values(help_text="Its parameters.")
    value = Number(allow_null=True, help_text="The best value that it has reported; null: none.")
    step = Number(allow_null=True, help_text="The highest step that it has reported; null: none.")
    rung = Integer(help_text="How many rungs it has reached.")
    gpu_hours = Number(help_text="That it has had so far.")
    saved_gpu_hours = Number(help_text="That its early stop has saved: an estimate by its own speed.")
    why = Text(allow_blank=True, help_text="Why the sweep stopped or paused it, or how it ended; may be empty.")
    started_at = Moment(allow_null=True, help_text="When it first started; null if it has not.")
    ended_at = Moment(allow_null=True, help_text="When it ended; null if it has not.")


class MemberList(Shape):
    """All members of a sweep, in order."""

    results = SweepMember(many=True, help_text="The members.")
