"""Readings of GPUs and machine, the checks of GPUs between jobs, and the node's inventory."""
