"""Arrays and their members."""

from __future__ import annotations

from typing import Annotated, TypedDict

from muster_client.answers.terms import GroupState, JsonObject, MemberState, Moment, Values


class ArrayCounts(TypedDict):
    """The members of an array by state."""

    total: Annotated[int, "All members."]
    waiting: Annotated[int, "In the queue."]
    running: Annotated[int, "With GPUs."]
    succeeded: Annotated[int, "Ended well."]
    failed: Annotated[int, "Failed."]
    cancelled: Annotated[int, "Cancelled."]


class ArrayInList(TypedDict):
    """An array without its spec."""

    id: Annotated[int, "The array's number; jobs and sweeps have other numbers."]
    name: Annotated[str, "The array's name, which its members have too."]
    tenant: Annotated[str, "The name of its tenant."]
    vc: Annotated[str, "The name of its virtual cluster."]
    pool: Annotated[str, "The name of its pool."]
    owner: Annotated[str, "The username of its owner."]
    state: Annotated[GroupState, "Succeeded if all members have, failed if one of them has failed."]
    reason: Annotated[str, "The reason of its end; may be empty."]
    parallel: Annotated[int, "Members that run at once, at most."]
    first_index: Annotated[int, "The lowest index of its members."]
    last_index: Annotated[int, "The highest index of its members."]
    members: Annotated[ArrayCounts, "The number of members by state."]
    gpu_hours: Annotated[float, "GPU-hours of its members so far."]
    submitted_at: Annotated[Moment, "When it was submitted."]
    started_at: Annotated[Moment | None, "When its first member started; null: none has."]
    ended_at: Annotated[Moment | None, "When its last member ended; null: it goes on."]
    cloned_from: Annotated[int | None, "The number of the array that this one is a clone of."]


class Array(ArrayInList):
    """An array with its spec."""

    spec: Annotated[JsonObject, "The spec as it was submitted, with every default written out."]


class SubmittedArray(Array):
    """An array that was accepted."""

    notes: Annotated[list[str], "Warnings as sentences, such as that the job asks for no GPU, or names no outputs."]
    warnings: Annotated[list[str], "Reasons why it cannot start until hardware is added."]


class RetriedArray(Array):
    """An array of which members run again."""

    retried: Annotated[int, "The number of members that run again."]


class ArrayPage(TypedDict):
    """A page of arrays, newest first."""

    results: Annotated[list[ArrayInList], "The arrays of this page."]
    next: Annotated[str | None, "The cursor of the next page; null on the last page."]


class ArrayMember(TypedDict):
    """A member of an array: one job."""

    index: Annotated[int, "Its index in the array."]
    job: Annotated[int, "The number of its job."]
    state: Annotated[MemberState, "Its state; never `paused` or `stopped`, which are those of sweeps."]
    params: Annotated[Values, "Its parameters."]
    exit_code: Annotated[int | None, "The exit code of its last attempt; null: none has ended."]
    why: Annotated[str, "The reason of its end; empty before that."]
    started_at: Annotated[Moment | None, "When it first started; null if it has not."]
    ended_at: Annotated[Moment | None, "When it ended; null if it has not."]


class ArrayMemberPage(TypedDict):
    """A page of an array's members, by their index."""

    results: Annotated[list[ArrayMember], "The members of this page."]
    next: Annotated[str | None, "The cursor of the next page; null on the last page."]
