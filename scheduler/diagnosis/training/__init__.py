"""What the figures of a training say: curves in bounded room, advice, and how often to save a checkpoint. Pure."""

from scheduler.diagnosis.training.advice import Advice, Kind, advise
from scheduler.diagnosis.training.checkpoints import Interval, interval_of
from scheduler.diagnosis.training.curve import Curve

__all__ = ["Advice", "Curve", "Interval", "Kind", "advise", "interval_of"]
