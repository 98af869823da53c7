"""Presets of pools."""

from __future__ import annotations

from scheduler.engine.cycle import CycleConfig, compose
from scheduler.presets import FIRST, PRESETS, preset_of


def test_a_pool_can_decide_by_each_preset() -> None:
    for preset in PRESETS.values():
        compose(CycleConfig(**preset.settings))


def test_settings_are_known_as_their_preset_until_one_differs() -> None:
    for preset in PRESETS.values():
        assert preset_of(preset.settings) is preset
    assert preset_of({**FIRST.settings, "placement": "spread"}) is None
    assert preset_of({**FIRST.settings, "policy_params": {}}) is None
