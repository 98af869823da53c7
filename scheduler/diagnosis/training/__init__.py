"""Diagnosis of trainings by their figures: bounded curves, advice, and the checkpoint interval. Pure."""

from scheduler.diagnosis.training.advice import Advice, Kind, advise
from scheduler.diagnosis.training.checkpoints import Interval, interval_of
from scheduler.diagnosis.training.curve import Curve
