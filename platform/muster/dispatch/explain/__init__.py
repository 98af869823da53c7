"""Answers about decisions: why a job waits, when it would start, what is fair."""
