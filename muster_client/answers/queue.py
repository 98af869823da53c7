"""The queue of a virtual cluster, and what is done with it."""

from __future__ import annotations

from typing import Annotated, TypedDict

from muster_client.answers.forecast import WaitForecast
from muster_client.answers.jobs import JobInList
from muster_client.answers.terms import JobClass, Moment, Values

_OfClass = TypedDict("_OfClass", {"class": Annotated[JobClass, "Jobs exchange places within their class only."]})


class QueueEntry(_OfClass, JobInList):
    """A waiting job."""

    evidence: Annotated[Values, "The figures behind `hold`; the keys depend on its reason. Empty without a hold."]
    waited_s: Annotated[float, "Seconds since it was submitted, or came back to the queue."]
    starts_at: Annotated[Moment | None, "When the policy expects to start it, at the latest; null if it does not say."]
    wait: Annotated[WaitForecast | None, "Its whole wait as it is expected now; null: not known, or it may not start."]
    movable: Annotated[bool, "Whether the caller may change its place among its owner's jobs."]


class Queue(TypedDict):
    """A page of the jobs that wait in a virtual cluster, in the order of the policy; held jobs come last."""

    vc: Annotated[str, "The name of the virtual cluster."]
    pool: Annotated[str, "The name of its pool."]
    policy: Annotated[str, "The policy that sets this order."]
    planner: Annotated[str, "The planner that decides; empty: the pool's own."]
    ordered_at: Annotated[Moment | None, "When the order last changed; null before the first cycle."]
    waiting: Annotated[int, "The number of waiting jobs, without the held ones."]
    held: Annotated[int, "The number of held jobs."]
    manages: Annotated[bool, "Whether the caller may bump jobs, and act on other members' jobs."]
    results: Annotated[list[QueueEntry], "The jobs of the page."]
    next: Annotated[str | None, "The cursor of the next page; null on the last one."]


class HeldMembers(TypedDict):
    """The number of members of a group that were held or released."""

    members: Annotated[int, "Members that changed."]
