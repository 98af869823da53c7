"""Sweeps and their members."""

from __future__ import annotations

from typing import Annotated, TypedDict

from muster_client.answers.terms import Goal, GroupState, JsonObject, MemberState, Method, Moment, Schema, Values


class MemberCounts(TypedDict):
    """The members of a sweep by state."""

    total: Annotated[int, "All members."]
    waiting: Annotated[int, "In the queue."]
    running: Annotated[int, "With GPUs."]
    paused: Annotated[int, "Paused at a rung until the others reach it."]
    succeeded: Annotated[int, "Ended well."]
    failed: Annotated[int, "Failed."]
    stopped: Annotated[int, "Stopped early by the sweep."]
    cancelled: Annotated[int, "Cancelled by a user."]


class BestMember(TypedDict):
    """The member with the best value so far."""

    job: Annotated[int, "The number of its job."]
    member: Annotated[int, "Its number in the sweep, from 1."]
    params: Annotated[Values, "Its parameters."]
    value: Annotated[float, "The best value that it has reported."]
    step: Annotated[float | None, "The step at which it reported that."]


class Rung(TypedDict):
    """A number of steps at which members are compared."""

    steps: Annotated[int, "Steps of the rung."]
    reached: Annotated[int, "Members that have reached it."]
    kept: Annotated[int, "Of those, members that were neither stopped nor paused there."]


class SweepRho(TypedDict):
    """The slowdown of the sweep against GPUs of its own."""

    cluster: Annotated[float | None, "Against an equal part of the cluster; null: not known."]
    quota: Annotated[float | None, "Against the quota of its virtual cluster; null: not known."]
    sentence: Annotated[str, "The same in words."]


class SweepInList(TypedDict):
    """A sweep without its spec."""

    id: Annotated[int, "The sweep's number."]
    name: Annotated[str, "The sweep's name, which its members have too."]
    tenant: Annotated[str, "The name of its tenant."]
    vc: Annotated[str, "The name of its virtual cluster."]
    pool: Annotated[str, "The name of its pool."]
    owner: Annotated[str, "The username of its owner."]
    state: Annotated[GroupState, "The state of the sweep as a whole."]
    reason: Annotated[str, "The reason of its end; may be empty."]
    method: Annotated[Method, "The method of choosing parameters, and of stopping members early."]
    metric: Annotated[str, "The figure by which members are compared."]
    goal: Annotated[Goal, "Whether less or more of the metric is better."]
    params: Annotated[list[str], "The names of its parameters, in order."]
    parallel: Annotated[int, "Members that run at once, at most."]
    members: Annotated[MemberCounts, "The number of members by state."]
    best: Annotated[BestMember | None, "Null: no member has reported a finite value of the metric."]
    gpu_hours: Annotated[float, "GPU-hours of its members so far."]
    saved_gpu_hours: Annotated[float, "GPU-hours saved by early stops: an estimate by each member's own speed."]
    submitted_at: Annotated[Moment, "When it was submitted."]
    ended_at: Annotated[Moment | None, "When its last member ended; null: it goes on."]
    cloned_from: Annotated[int | None, "The number of the sweep that this one is a clone of."]


class Sweep(SweepInList):
    """A sweep with its spec and its progress."""

    spec: Annotated[JsonObject, "The spec as it was submitted, with every default written out."]
    best_so_far: Annotated[
        list[Annotated[list[float], Schema(minItems=2, maxItems=2)]],
        "Pairs: seconds since the submission, and the best value of all members then.",
    ]
    rungs: Annotated[list[Rung], "The steps at which members are compared; empty for grid and random."]
    rho: Annotated[SweepRho | None, "Null: nothing is known of it yet."]


class SubmittedSweep(Sweep):
    """A sweep that was accepted."""

    notes: Annotated[list[str], "Warnings as sentences, such as that the job asks for no GPU, or names no outputs."]
    warnings: Annotated[list[str], "Reasons why it cannot start until hardware is added."]


class RetriedSweep(Sweep):
    """A sweep of which members run again."""

    retried: Annotated[int, "The number of members that run again."]


class SweepPage(TypedDict):
    """A page of sweeps, newest first."""

    results: Annotated[list[SweepInList], "The sweeps of this page."]
    next: Annotated[str | None, "The cursor of the next page; null on the last page."]


class SweepMember(TypedDict):
    """A member of a sweep: one job."""

    member: Annotated[int, "Its number in the sweep, from 1."]
    job: Annotated[int, "The number of its job."]
    state: Annotated[MemberState, "Its state, as the sweep sees it."]
    params: Annotated[Values, "Its parameters."]
    value: Annotated[float | None, "The best value that it has reported; null: none."]
    step: Annotated[float | None, "The highest step that it has reported; null: none."]
    rung: Annotated[int, "The number of rungs that it has reached."]
    gpu_hours: Annotated[float, "GPU-hours of the member so far."]
    saved_gpu_hours: Annotated[float, "GPU-hours saved by its early stop: an estimate by its own speed."]
    why: Annotated[str, "Why the sweep stopped or paused it, or how it ended; may be empty."]
    started_at: Annotated[Moment | None, "When it first started; null if it has not."]
    ended_at: Annotated[Moment | None, "When it ended; null if it has not."]


class MemberList(TypedDict):
    """All members of a sweep, in order."""

    results: Annotated[list[SweepMember], "The members."]
