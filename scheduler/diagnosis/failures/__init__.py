"""Causes of failures: `classify` finds the class from logs, exit status, and reports of the platform and the GPUs."""

from scheduler.diagnosis.failures.classify import classify
from scheduler.diagnosis.failures.evidence import Category, GpuEvent, Retry, Strength, Tail, Verdict
from scheduler.diagnosis.failures.rules import FailureClass, Rule, RuleSet, builtin, read_rules
from scheduler.diagnosis.failures.titles import title_of
from scheduler.diagnosis.patterns import RuleError
