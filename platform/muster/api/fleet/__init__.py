"""Pools, nodes, GPUs and maintenance."""
