"""Presets: settings of a pool that suit a purpose; docs/operator/presets.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Preset:
    """A policy, a placement and an admission for one purpose."""

    name: str
    title: str
    purpose: str  # a sentence for operators: what it is good at, and what it asks of them
    policy: str
    admission: str
    policy_params: Mapping[str, object] = field(default_factory=dict)  # those that are not at their default
    placement: str = "consolidate"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a pool, by the names of its columns."""
        plugins = {"policy": self.policy, "placement": self.placement, "admission": self.admission}
        return {**plugins, "policy_params": dict(self.policy_params), "placement_params": {}, "admission_params": {}}


BATCH_RESEARCH = Preset(
    name="batch-research",
    title="Batch research",
    purpose="Short jobs go first, so that the mean job ends soonest; long ones can be stopped for them and go on "
    "later. Each virtual cluster stays within its quota.",
    policy="srsf",
    policy_params={"unknown_s": 86_400},
    admission="quota",
)
MIXED_TYPES = Preset(
    name="mixed-gpu-types",
    title="Mixed GPU types",
    purpose="Each job runs where it gains most: fast GPUs go to the jobs that need them, in rounds of six minutes. For "
    "pools with several GPU types and jobs that report their progress.",
    policy="gavel",
    admission="quota",
)
FAIR_TEAMS = Preset(
    name="fair-between-teams",
    title="Fair between teams",
    purpose="Teams share the whole pool by weight: the team with the least is next. Idle GPUs go to any team, and come "
    "back by stopping the newest jobs of the team that holds most.",
    policy="drf",
    policy_params={"over": "tenant", "preemption_share": 0.25},
    admission="open",
)
GUARANTEED_CELLS = Preset(
    name="guaranteed-cells",
    title="Guaranteed cells",
    purpose="Each virtual cluster owns nodes or parts of nodes, and its jobs start as if these were its own. Idle GPUs "
    "go to opportunistic jobs. Promise cells on the pages of the virtual clusters first.",
    policy="fifo",
    admission="hived",
)

PRESETS: Mapping[str, Preset] = {
    preset.name: preset for preset in (BATCH_RESEARCH, MIXED_TYPES, FAIR_TEAMS, GUARANTEED_CELLS)
}
FIRST = BATCH_RESEARCH
"""The preset of a new pool."""


def preset_of(settings: Mapping[str, Any]) -> Preset | None:
    """The preset with exactly these settings, if there is one; other keys do not count."""
    for preset in PRESETS.values():
        if all(settings[key] == value for key, value in preset.settings.items()):
            return preset
    return None
