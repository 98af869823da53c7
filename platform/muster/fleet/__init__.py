"""Pools, nodes, GPUs and the leases of their agents."""
