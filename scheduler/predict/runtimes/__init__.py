"""Predicted run times: quantiles by rules or by trees, scored on what ended later, and corrected while a job runs."""

from scheduler.predict.history import EndedRun, History, RunTimeJob
from scheduler.predict.runtimes.correction import corrected, corrected_at
from scheduler.predict.runtimes.model import RunTimeModel, newest, score, train
from scheduler.predict.runtimes.quantiles import RunTime, Source
from scheduler.predict.runtimes.rules import by_rules
