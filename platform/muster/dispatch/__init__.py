"""Snapshot, policy, apply: the scheduling loop and the record of its cycles."""
