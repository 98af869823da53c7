"""How pools decide."""

from __future__ import annotations

from typing import Any

from muster.api.shapes.common import Integer, Moment, Shape, Text
from muster.api.shapes.jobs import Values


class PlugIn(Shape):
    """A policy, placement or guard; `params_schema` is the JSON Schema of its parameters."""

    name = Text()
    params_schema = Values()


class PlugIns(Shape):
    """What a pool can be told to decide by, each kind by name."""

    policies = PlugIn(many=True)
    placements = PlugIn(many=True)
    guards = PlugIn(many=True)


class Fallback(Shape):
    """What a pool decides by since its own settings have failed."""

    policy = Text()
    placement = Text()
    guard = Text()
    since = Moment()
    why = Text()
    cycle = Integer()


class PoolPolicy(Shape):
    """The settings by which a pool decides; parameters that are not named have their defaults.

    `fallback` is null unless these settings have failed: then the pool decides by what it says, until they are edited.
    """

    policy = Text()
    policy_params = Values()
    placement = Text()
    placement_params = Values()
    guard = Text()
    guard_params = Values()
    fallback = Fallback(allow_null=True)


class PoolPolicyChange(Shape):
    """New settings; a plug-in that is not named stays, and one that is named without parameters gets its defaults."""

    policy = Text(max_length=40)
    policy_params = Values(required=False)
    placement = Text(max_length=40, required=False)
    placement_params = Values(required=False)
    guard = Text(max_length=40, required=False)
    guard_params = Values(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The new settings; a plug-in that is named replaces the parameters, too."""
        for kind in ("policy", "placement", "guard"):
            if kind in attrs:
                attrs.setdefault(f"{kind}_params", {})
        return attrs
