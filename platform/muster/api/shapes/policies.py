"""How pools decide."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from muster.api.shapes.common import Choice, Integer, Moment, Number, Shape, Text, values
from muster.api.shapes.jobs import JobRate, Values
from scheduler.engine.policy import Need


class PlugIn(Shape):
    """A policy, a placement or a quota admission; `params_schema` is the JSON Schema of its parameters."""

    name = Text(help_text="The name of the plug-in, as the settings of a pool name it.")
    params_schema = Values(help_text="The JSON Schema of its parameters.")


class Preset(Shape):
    """Settings of a pool that suit a purpose; `settings` can be the body of `PUT /pools/{name}/policy`."""

    name = Text(help_text="The name of the preset.")
    title = Text(help_text="Its title on the pages of operators.")
    purpose = Text(help_text="What it is good at, and what it asks of operators.")
    settings = Values(help_text="The policy, placement and admission with their parameters.")


class PlugIns(Shape):
    """What a pool can be told to decide by, each kind by name."""

    policies = PlugIn(many=True, help_text="The policies, which order the waiting jobs.")
    placements = PlugIn(many=True, help_text="The placements, which pick nodes and GPUs.")
    admissions = PlugIn(many=True, help_text="What can decide whether a virtual cluster may have GPUs.")
    presets = Preset(many=True, help_text="A policy, a placement and an admission for one purpose each.")


class Fallback(Shape):
    """What a pool decides by since its own settings have failed."""

    policy = Text(help_text="The policy in use.")
    placement = Text(help_text="The placement in use.")
    admission = Text(help_text="The quota admission in use.")
    since = Moment(help_text="When the pool's own settings failed.")
    why = Text(help_text="How the pool's own settings failed.")
    cycle = Integer(
        allow_null=True, help_text="The id of the scheduling cycle that failed; null for a solve of the pool's lane."
    )


class PoolPolicy(Shape):
    """The settings by which a pool decides; parameters that are not named have their defaults.

    `fallback` is null unless these settings have failed: then the pool decides by what it says, until they are edited.
    """

    policy = Text(help_text="The name of the policy.")
    policy_params = Values(help_text="The parameters of the policy.")
    placement = Text(help_text="The name of the placement.")
    placement_params = Values(help_text="The parameters of the placement.")
    admission = Text(help_text="The name of the quota admission.")
    admission_params = Values(help_text="The parameters of the quota admission.")
    fallback = Fallback(
        allow_null=True, help_text="What the pool uses instead since these settings failed; null if they work."
    )


class PoolPolicyChange(Shape):
    """New settings; a plug-in that is not named stays, and one that is named without parameters gets its defaults."""

    policy = Text(max_length=40, help_text="The name of the policy.")
    policy_params = Values(required=False, help_text="The parameters of the policy; without them it gets its defaults.")
    placement = Text(max_length=40, required=False, help_text="The name of the placement; by default it stays.")
    placement_params = Values(
        required=False, help_text="The parameters of the placement; if only `placement` is given, it gets its defaults."
    )
    admission = Text(max_length=40, required=False, help_text="The name of the quota admission; by default it stays.")
    admission_params = Values(
        required=False,
        help_text="The parameters of the quota admission; if only `admission` is given, it gets its defaults.",
    )
    reason = Text(
        max_length=500, required=False, allow_blank=True, help_text="Why it is changed, for the audit log; optional."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The new settings; a plug-in that is named replaces the parameters, too."""
        for kind in ("policy", "placement", "admission"):
            if kind in attrs:
                attrs.setdefault(f"{kind}_params", {})
        return attrs


class Knowledge(Shape):
    """Of the live jobs with GPUs: for how many the rates and the run time are known."""

    jobs = Integer(help_text="Jobs with GPUs that wait or run.")
    rates = Integer(help_text="Those with a known rate on some GPU type.")
    by_source = serializers.DictField(
        child=Integer(), help_text="Those with a rate from each source; a job may have several."
    )
    expected = Integer(help_text="Those with an expected run time.")


class TypeShare(Shape):
    """What the last solve gave a job, or two jobs that share GPUs, of one GPU type, and what it received since then."""

    gpu_type = Text(help_text="The GPU type.")
    share = Number(help_text="The share of time that the last solve gave it there, from 0 to 1.")
    received = Number(help_text="The share of the time since then in which it had GPUs of this type.")
    deficit_s = Number(help_text="The time, s, that it was promised before the last solve and did not receive.")
    turn = Integer(
        allow_null=True,
        help_text="Its place, from 1, when the GPUs of this type are given out next; null: it has no share of them.",
    )
    rate = JobRate(allow_null=True, help_text="How fast the first of the jobs is there; null: unknown.")


class Decided(Shape):
    """What a policy that gives out shares of time decided for one job, or for two that share their GPUs."""

    job_ids = serializers.ListField(child=Integer(), help_text="The job, or the two jobs that share their GPUs.")
    title = Text(help_text="The jobs with their tenants and GPUs, in words.")
    by_type = TypeShare(many=True, help_text="By GPU type, in the order in which the types are given out.")
    why = Text(help_text="Where it is, and by which shares.")


class Solve(Shape):
    """How the shares of the last solve were computed."""

    jobs = Integer(help_text="The jobs of the solve.")
    rows = Integer(help_text="The kinds of equal jobs in which they were solved; as many as jobs: one by one.")
    parts = Integer(help_text="The random parts that were solved apart; 1: together.")
    lost = Number(
        allow_null=True,
        help_text="The share of the optimum that parts lose at most; null: nothing, or for this objective not known.",
    )


class LastRound(Shape):
    """The last round of a policy that gives out shares of time."""

    solved_at = Moment(help_text="When the shares were computed.")
    counted_at = Moment(help_text="Until when the time that jobs received is counted.")
    ends_at = Moment(help_text="When the next round begins.")
    round_s = Number(help_text="The length of a round, s.")
    total = Integer(help_text="The number of jobs, and of pairs that share GPUs, with shares.")
    solve = Solve(allow_null=True, help_text="How they were computed; null: the policy does not tell.")
    rows = Decided(many=True, help_text="The jobs with shares, the largest share first; at most 500.")


class AuctionRow(Shape):
    """One row of a bid."""

    gpu_type = Text(help_text="The GPU type.")
    gpus = Integer(help_text="How many GPUs.")
    packed = serializers.BooleanField(help_text="On the fewest nodes that hold them.")
    value = Number(help_text="1 ÷ rho with these GPUs.")


class AuctionBid(Shape):
    """The bid of a sweep, or of a job outside of any."""

    application = Text(help_text="The bidder, such as `sweep 12` or `job 1042`.")
    name = Text(help_text="Its name.")
    tenant = Text(help_text="Its tenant.")
    rho = Number(allow_null=True, help_text="Its finish-time fairness before the auction; null: it has no GPUs.")
    rows = AuctionRow(many=True, help_text="What it wishes for; at most 16 rows are kept.")


class AuctionWin(Shape):
    """What a bidder won, and what it paid."""

    application = Text(help_text="The winner.")
    name = Text(help_text="Its name.")
    gpu_type = Text(help_text="The GPU type.")
    gpus = Integer(help_text="How many GPUs.")
    packed = serializers.BooleanField(help_text="On the fewest nodes that hold them.")
    part = Number(help_text="The part of a full lease that its hidden payment leaves, above 0 and at most 1.")
    lease_s = Number(help_text="Its lease, s.")
    job_ids = serializers.ListField(child=Integer(), help_text="The jobs that got the GPUs.")


class RefusedBid(Shape):
    """A bid that did not count."""

    application = Text(help_text="The bidder.")
    why = Text(help_text="What was wrong with it.")


class Auction(Shape):
    """One auction of the policy `themis`."""

    number = Integer(help_text="Its number.")
    at = Moment(help_text="When it was held.")
    offer = serializers.DictField(child=Integer(), help_text="The GPUs that were offered, by type.")
    bids = AuctionBid(many=True, help_text="The bids, the worst served first.")
    outside = Integer(help_text="The candidates that did not bid.")
    wins = AuctionWin(many=True, help_text="The winners with what they won.")
    drawn = serializers.ListField(child=Integer(), help_text="The jobs that got left-overs by lot.")
    left = serializers.DictField(child=Integer(), help_text="The GPUs that stayed idle, by type.")
    refused = RefusedBid(many=True, help_text="Bids that did not count.")
    without_room = serializers.ListField(
        child=Integer(), help_text="The jobs of winners for which the nodes had no room."
    )


class PoolDecisions(Shape):
    """What the policy that a pool decides by now needs to know, how well that is known, and what it decided."""

    policy = Text(help_text="The name of the policy in use.")
    policy_params = Values(help_text="Its parameters; those that are not named have their defaults.")
    needs = serializers.ListField(
        child=Choice(choices=values(Need)),
        help_text="What it needs to know of jobs: their rates by GPU type, their remaining run times, or nothing.",
    )
    knows = Knowledge(
        help_text="How well the pool knows rates and run times now, whether or not the policy needs them."
    )
    last_round = LastRound(allow_null=True, help_text="null: the policy keeps no shares, or has not decided yet.")
    auctions = Auction(many=True, help_text="The last auctions of the policy `themis`, the newest first; at most six.")
    wakes_at = Moment(
        allow_null=True,
        help_text="When the policy decides again without an event, such as at the end of a lease; null: never.",
    )
