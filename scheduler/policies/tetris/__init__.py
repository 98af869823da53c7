"""Prefers jobs that fit the free resources well and end soon (Tetris)."""

from scheduler.policies.tetris.policy import Tetris

PLUGIN = Tetris

__all__ = ["PLUGIN", "Tetris"]
