"""The cost of sharing a pool."""
