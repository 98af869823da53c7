"""Auctions of leases among applications by finish-time fairness (Themis)."""

from scheduler.policies.themis.policy import Themis

PLUGIN = Themis
