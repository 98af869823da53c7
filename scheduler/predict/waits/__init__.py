"""Forecasts of waiting times from what is known at submission, and their calibration by the waits that follow."""

from scheduler.predict.waits.calibration import Calibration
from scheduler.predict.waits.forecast import LEVELS, QUICK_S, WaitForecast, WaitSource
from scheduler.predict.waits.model import WaitModel, train
from scheduler.predict.waits.online import Online, Weights, combine
from scheduler.predict.waits.state import MAX_STARTED, Jobs, QueueState, WaitJob, kind_of

__all__ = [
    "LEVELS",
    "MAX_STARTED",
    "QUICK_S",
    "Calibration",
    "Jobs",
    "Online",
    "QueueState",
    "WaitForecast",
    "WaitJob",
    "WaitModel",
    "WaitSource",
    "Weights",
    "combine",
    "kind_of",
    "train",
]
