"""The settings and decisions of pools."""

from __future__ import annotations

from typing import Annotated, TypedDict

from muster_client.answers.jobs import JobRate
from muster_client.answers.terms import Moment, PolicyNeed, Values


class PlugIn(TypedDict):
    """A policy, a placement or a quota admission; `params_schema` is the JSON Schema of its parameters."""

    name: Annotated[str, "The name of the plug-in, as the settings of a pool name it."]
    params_schema: Annotated[Values, "The JSON Schema of its parameters."]


class Preset(TypedDict):
    """Settings of a pool that suit a purpose; `settings` can be the body of `PUT /pools/{name}/policy`."""

    name: Annotated[str, "The name of the preset."]
    title: Annotated[str, "Its title on the pages of operators."]
    purpose: Annotated[str, "Its strengths, and its demands on operators."]
    settings: Annotated[Values, "The policy, placement and admission with their parameters."]


class PlugIns(TypedDict):
    """The plug-ins that a pool can use, each kind by name."""

    policies: Annotated[list[PlugIn], "The policies, which order the waiting jobs."]
    placements: Annotated[list[PlugIn], "The placements, which pick nodes and GPUs."]
    admissions: Annotated[list[PlugIn], "The admissions, which decide whether a virtual cluster may have GPUs."]
    presets: Annotated[list[Preset], "A policy, a placement and an admission for one purpose each."]


class Fallback(TypedDict):
    """The settings that a pool uses since its own have failed."""

    policy: Annotated[str, "The policy in use."]
    placement: Annotated[str, "The placement in use."]
    admission: Annotated[str, "The quota admission in use."]
    since: Annotated[Moment, "When the pool's own settings failed."]
    why: Annotated[str, "The error of the pool's own settings."]
    cycle: Annotated[int | None, "The id of the scheduling cycle that failed; null for a solve of the pool's lane."]


class PoolPolicy(TypedDict):
    """The settings by which a pool decides; parameters that are not named have their defaults.

    `fallback` is null unless these settings have failed; then the pool uses the settings in it until these are edited.
    """

    policy: Annotated[str, "The name of the policy."]
    policy_params: Annotated[Values, "The parameters of the policy."]
    placement: Annotated[str, "The name of the placement."]
    placement_params: Annotated[Values, "The parameters of the placement."]
    admission: Annotated[str, "The name of the quota admission."]
    admission_params: Annotated[Values, "The parameters of the quota admission."]
    fallback: Annotated[Fallback | None, "The settings in use since these have failed; null if these work."]


class Knowledge(TypedDict):
    """The number of live jobs with GPUs whose rates and run time are known."""

    jobs: Annotated[int, "Jobs with GPUs that wait or run."]
    rates: Annotated[int, "Those with a known rate on some GPU type."]
    by_source: Annotated[dict[str, int], "Those with a rate from each source; a job may have several."]
    expected: Annotated[int, "Those with an expected run time."]


class TypeShare(TypedDict):
    """The share of one GPU type for a job, or for two jobs that share GPUs, and the time received since."""

    gpu_type: Annotated[str, "The GPU type."]
    share: Annotated[float, "The share of time that the last solve gave it there, from 0 to 1."]
    received: Annotated[float, "The part of the time since then in which it had GPUs of this type."]
    deficit_s: Annotated[float, "The time, s, that it was promised before the last solve and did not receive."]
    turn: Annotated[
        int | None, "Its place, from 1, when the GPUs of this type are given out next; null: it has no share of them."
    ]
    rate: Annotated[JobRate | None, "The speed of the first job there; null: unknown."]


class Decided(TypedDict):
    """The decision of a policy with shares of time for one job, or for two that share their GPUs."""

    job_ids: Annotated[list[int], "The job, or the two jobs that share their GPUs."]
    title: Annotated[str, "The jobs with their tenants and GPUs, in words."]
    by_type: Annotated[list[TypeShare], "Its shares by GPU type, in the order in which the types are given out."]
    why: Annotated[str, "The GPUs that it has, and the shares behind that."]


class Solve(TypedDict):
    """Figures of the last solve for shares."""

    jobs: Annotated[int, "The jobs of the solve."]
    rows: Annotated[int, "The number of kinds of equal jobs; equal to `jobs`: they were solved one by one."]
    parts: Annotated[int, "The number of random parts that were solved apart; 1: all together."]
    lost: Annotated[
        float | None,
        "The share of the optimum that parts lose at most; null: nothing, or for this objective not known.",
    ]


class LastRound(TypedDict):
    """The last round of a policy that gives out shares of time."""

    solved_at: Annotated[Moment, "When the shares were computed."]
    counted_at: Annotated[Moment, "The time up to which received GPU time is counted."]
    ends_at: Annotated[Moment, "When the next round begins."]
    round_s: Annotated[float, "The length of a round, s."]
    total: Annotated[int, "The number of jobs, and of pairs that share GPUs, with shares."]
    solve: Annotated[Solve | None, "Figures of the last solve; null: the policy reports none."]
    rows: Annotated[list[Decided], "The jobs with shares, the largest share first; at most 500."]


class AuctionRow(TypedDict):
    """One row of a bid."""

    gpu_type: Annotated[str, "The GPU type."]
    gpus: Annotated[int, "The number of GPUs."]
    packed: Annotated[bool, "On the fewest nodes that hold them."]
    value: Annotated[float, "1 ÷ rho with these GPUs."]


class AuctionBid(TypedDict):
    """The bid of a sweep, or of a job outside of sweeps."""

    application: Annotated[str, "The bidder, such as `sweep 12` or `job 1042`."]
    name: Annotated[str, "Its name."]
    tenant: Annotated[str, "Its tenant."]
    rho: Annotated[float | None, "Its finish-time fairness before the auction; null: it has no GPUs."]
    rows: Annotated[list[AuctionRow], "Its rows; at most 16 are kept."]


class AuctionWin(TypedDict):
    """A winner of the auction: its GPUs and its payment."""

    application: Annotated[str, "The winner."]
    name: Annotated[str, "Its name."]
    gpu_type: Annotated[str, "The GPU type."]
    gpus: Annotated[int, "The number of GPUs."]
    packed: Annotated[bool, "On the fewest nodes that hold them."]
    part: Annotated[float, "The part of a full lease that its hidden payment leaves, above 0 and at most 1."]
    lease_s: Annotated[float, "Its lease, s."]
    job_ids: Annotated[list[int], "The jobs that got the GPUs."]


class RefusedBid(TypedDict):
    """A bid that did not count."""

    application: Annotated[str, "The bidder."]
    why: Annotated[str, "The reason why it did not count."]


class Auction(TypedDict):
    """One auction of the policy `themis`."""

    number: Annotated[int, "Its number."]
    at: Annotated[Moment, "When it was held."]
    offer: Annotated[dict[str, int], "The GPUs that were offered, by type."]
    bids: Annotated[list[AuctionBid], "The bids, the worst served first."]
    outside: Annotated[int, "The candidates that did not bid."]
    wins: Annotated[list[AuctionWin], "The winners with what they won."]
    drawn: Annotated[list[int], "The jobs that got left-overs by lot."]
    left: Annotated[dict[str, int], "The GPUs that stayed idle, by type."]
    refused: Annotated[list[RefusedBid], "Bids that did not count."]
    without_room: Annotated[list[int], "The jobs of winners for which the nodes had no room."]


class PoolDecisions(TypedDict):
    """The needs of the pool's present policy, the pool's knowledge of them, and the policy's decisions."""

    policy: Annotated[str, "The name of the policy in use."]
    policy_params: Annotated[Values, "Its parameters; those that are not named have their defaults."]
    needs: Annotated[
        list[PolicyNeed],
        "The facts about jobs that it needs: rates by GPU type, remaining run times, or none.",
    ]
    knows: Annotated[Knowledge, "The pool's knowledge of rates and run times, whether or not the policy needs them."]
    last_round: Annotated[LastRound | None, "null: the policy keeps no shares, or has not decided yet."]
    auctions: Annotated[list[Auction], "The last auctions of the policy `themis`, the newest first; at most six."]
    wakes_at: Annotated[
        Moment | None, "When the policy decides again without an event, such as at the end of a lease; null: never."
    ]
