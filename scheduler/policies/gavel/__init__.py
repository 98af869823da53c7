"""Shares of time by job and GPU type from a mathematical program, as in Gavel."""

from scheduler.policies.gavel.policy import Gavel

PLUGIN = Gavel
