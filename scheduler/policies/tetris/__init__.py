"""Tetris: what fits the free resources best and is done soonest goes first."""

from scheduler.policies.tetris.policy import Tetris

PLUGIN = Tetris

__all__ = ["PLUGIN", "Tetris"]
