"""Bodies of requests about policies."""

from __future__ import annotations

from typing import Any

from muster.api.fields import Shape, Text
from muster.api.jobs.bodies import Values


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
