"""A virtual cluster holds at most its quota of GPUs of each type."""

from scheduler.admission.quota.admission import QUOTA_EXCEEDED, Quota

PLUGIN = Quota

__all__ = ["PLUGIN", "QUOTA_EXCEEDED", "Quota"]
