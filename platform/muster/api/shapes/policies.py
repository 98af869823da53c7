"""How pools decide."""

from __future__ import annotations

from typing import Any

from muster.api.shapes.common import Integer, Moment, Shape, Text
from muster.api.shapes.jobs import Values


class PlugIn(Shape):
    """A policy, a placement or a quota admission; `params_schema` is the JSON Schema of its parameters."""

    name = Text(help_text="The name of the plug-in, as the settings of a pool name it.")
    params_schema = Values(help_text="The JSON Schema of its parameters.")


class PlugIns(Shape):
    """What a pool can be told to decide by, each kind by name."""

    policies = PlugIn(many=True, help_text="The policies, which order the waiting jobs.")
    placements = PlugIn(many=True, help_text="The placements, which pick nodes and GPUs.")
    admissions = PlugIn(many=True, help_text="What can decide whether a virtual cluster may have GPUs.")


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

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The new settings; a plug-in that is named replaces the parameters, too."""
        for kind in ("policy", "placement", "admission"):
            if kind in attrs:
                attrs.setdefault(f"{kind}_params", {})
        return attrs
