"""Diagnosis of attempts, GPUs and nodes: causes of failures, health, idleness, progress. Nothing here schedules."""
